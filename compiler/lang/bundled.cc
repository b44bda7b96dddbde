#include "compiler/lang/bundled.h"

#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "compiler/lang/parser.h"

namespace kiln::lang {
namespace {

// The schedulers give worker w the tiles w, w + W, w + 2 W, ... of a grid whose slow axis is cut
// into panels of swizzle_size: within a panel the fast axis is walked from start to end, at every
// step over the panel's width; the last panel may be narrower. A cluster of blocks counts as one
// row of tiles. Both ways to call and to read them are accepted: with the name as first argument or
// as `name=`; m_idx[0] or m_idx.
constexpr char kClasses[] = R"python(
class BaseTileScheduler:
    def __init__(self, prefix=None, stateful=True, name=None):
        if isinstance(prefix, bool):
            stateful, prefix = prefix, stateful if isinstance(stateful, str) else None
        label = prefix if name is None else name
        if label is not None:
            self.__name__ = label
        self.stateful = stateful
        if stateful:
            self.m_idx = self._m_idx = T.alloc_var(T.int32)
            self.n_idx = self._n_idx = T.alloc_var(T.int32)
            self.linear_idx = self._linear_idx = T.alloc_var(T.int32)
            self.current_iter = self._current_iter = T.alloc_var(T.int32)
        self._total_tiles = 0

    def update_current_idx(self, linear_idx):
        raise NotImplementedError("a scheduler needs a method update_current_idx(self, linear_idx)")

    def init(self, linear_init):
        assert self.stateful, \
            "a scheduler with stateful=False holds no place in the tiles: ask its coord(tile_id)"
        self._current_iter[0] = 0
        self._linear_idx[0] = linear_init
        self.update_current_idx(self._linear_idx[0])

    def next_tile(self, step):
        assert self.stateful, \
            "a scheduler with stateful=False holds no place in the tiles: ask its coord(tile_id)"
        self._current_iter[0] = self._current_iter[0] + 1
        self._linear_idx[0] = self._linear_idx[0] + step
        self.update_current_idx(self._linear_idx[0])

    def valid(self):
        assert self.stateful, \
            "a scheduler with stateful=False holds no place in the tiles: ask its coord(tile_id)"
        return self._linear_idx[0] < self._total_tiles


class PersistentTileScheduler(BaseTileScheduler):
    def __init__(self, *tiles, num_m_tiles=None, num_n_tiles=None, num_workers=None,
                 swizzle_size=1, column_major=True, cluster_size=1, stateful=True, prefix=None,
                 name=None):
        if len(tiles) > 0 and isinstance(tiles[0], str):
            assert prefix is None, "the scheduler's prefix is given twice"
            prefix, tiles = tiles[0], tiles[1:]
        given = [num_m_tiles, num_n_tiles, num_workers, swizzle_size, column_major, cluster_size,
                 stateful, name]
        assert len(tiles) <= len(given), "a scheduler takes at most 8 arguments after its prefix"
        names = ["num_m_tiles", "num_n_tiles", "num_workers", "swizzle_size", "column_major",
                 "cluster_size", "stateful", "name"]
        defaults = [None, None, None, 1, True, 1, True, None]
        for i in range(len(tiles)):
            assert given[i] is defaults[i], f"'{names[i]}' of the scheduler is given twice"
            given[i] = tiles[i]
        m_tiles, n_tiles, workers, swizzle, by_column, cluster, stateful, name = given
        assert m_tiles is not None and n_tiles is not None, \
            "a scheduler needs num_m_tiles and num_n_tiles"
        for tiles in [m_tiles, n_tiles]:
            assert not isinstance(tiles, float), "num_m_tiles and num_n_tiles are integers"
            assert not isinstance(tiles, int) or tiles >= 0, \
                "num_m_tiles and num_n_tiles are at least 0"
        assert isinstance(swizzle, int) and swizzle >= 1, \
            "swizzle_size is a compile-time integer of at least 1"
        assert isinstance(cluster, int) and cluster >= 1, \
            "cluster_size is a compile-time integer of at least 1"
        workers = driver.get_num_sms() // cluster if workers is None else workers
        assert not isinstance(workers, float), "num_workers is an integer"
        assert not isinstance(workers, int) or workers >= 1, "num_workers is at least 1"
        BaseTileScheduler.__init__(self, prefix, stateful, name)
        self.cluster_size = cluster
        self.num_workers = workers
        self.swizzle_size = swizzle
        self._column_major = by_column
        rows = T.ceildiv(m_tiles, cluster)
        self._total_tiles = rows * n_tiles
        self._fast = rows if by_column else n_tiles
        self._slow = n_tiles if by_column else rows

    def coord(self, tile_id):
        panel = self._fast * self.swizzle_size
        group = tile_id // panel
        base = group * self.swizzle_size
        rest = tile_id - group * panel
        if self.swizzle_size == 1:
            fast, slow = rest, base
        else:
            width = T.max(1, T.min(self.swizzle_size, self._slow - base))
            fast, slow = rest // width, base + rest % width
        return (fast, slow) if self._column_major else (slow, fast)

    def update_current_idx(self, linear_idx):
        m, n = self.coord(linear_idx)
        self._m_idx[0] = m
        self._n_idx[0] = n

    def next_tile(self):
        assert self.stateful, \
            "a scheduler with stateful=False holds no place in the tiles: ask its coord(tile_id)"
        self._current_iter[0] = self._current_iter[0] + 1
        self._linear_idx[0] = self._linear_idx[0] + self.num_workers
        self.update_current_idx(self._linear_idx[0])


class ws_op:
    def __init__(self, op_id):
        assert isinstance(op_id, str), "T.ws_op takes the name of the operation"
        self.op_id = op_id


class WSRole:
    def __init__(self, name, *, warps_lo, warps_hi, max_nreg=0):
        assert 0 <= warps_lo and warps_lo < warps_hi, \
            "a role has the warps from warps_lo to before warps_hi"
        self.name, self.warps_lo, self.warps_hi, self.max_nreg = name, warps_lo, warps_hi, max_nreg


class WSPipeline:
    def __init__(self, name, buffers, depth):
        assert depth >= 1, "a pipeline has at least one version of its buffers"
        self.name, self.buffers, self.depth = name, buffers, depth


class WSSync:
    def __init__(self, kind, pipeline, stage=0):
        assert stage >= 0, "the stage of a sync is 0 or more"
        self.kind, self.pipeline, self.stage = kind, pipeline, stage

    @staticmethod
    def producer_acquire(pipeline, stage=0):
        return WSSync("producer_acquire", pipeline, stage)

    @staticmethod
    def producer_commit(pipeline, stage=0):
        return WSSync("producer_commit", pipeline, stage)

    @staticmethod
    def consumer_wait(pipeline, stage=0):
        return WSSync("consumer_wait", pipeline, stage)

    @staticmethod
    def consumer_release(pipeline, stage=0):
        return WSSync("consumer_release", pipeline, stage)


class WSScope:
    ROOT = "tl.ws_scope_root"

    def __init__(self, id, bodies):
        self.id, self.bodies = id, bodies


class WSSchedule:
    def __init__(self, num_warps, roles, pipelines, scopes):
        assert num_warps > 0 and num_warps % 4 == 0, "num_warps is a positive multiple of 4"
        taken = []
        for role in roles:
            assert role.warps_hi <= num_warps, f"the role '{role.name}' has warps beyond num_warps"
            for other in taken:
                assert role.name != other.name, f"two roles are called '{role.name}'"
                assert role.warps_hi <= other.warps_lo or other.warps_hi <= role.warps_lo, \
                    f"the roles '{other.name}' and '{role.name}' have warps in common"
            taken.append(role)
        names = [role.name for role in roles]
        known = [pipeline.name for pipeline in pipelines]
        for name in known:
            assert known.count(name) == 1, f"two pipelines are called '{name}'"
        ends = {"producer_acquire": "producer_commit", "consumer_wait": "consumer_release"}
        for scope in scopes:
            for role in scope.bodies:
                where = f"'{role}' in '{scope.id}'"
                assert role in names, f"the scope '{scope.id}' has a body for '{role}', " \
                    "which is no role"
                begun = []
                for step in scope.bodies[role]:
                    if isinstance(step, str):
                        continue
                    assert step.pipeline in known, f"{where}: a sync names '{step.pipeline}', " \
                        "which is no pipeline"
                    span = (step.kind, step.pipeline, step.stage)
                    if step.kind in ends:
                        begun.append((ends[step.kind], step.pipeline, step.stage))
                        continue
                    assert span in begun, f"{where} ends '{step.pipeline}', " \
                        "which it has not begun at this stage"
                    begun.remove(span)
                for span in begun:
                    assert False, f"{where} begins '{span[1]}' and does not end it"
        self.num_warps, self.roles = num_warps, roles
        self.pipelines, self.scopes = pipelines, scopes
)python";

// Products by hand: each of the 32 threads of a warp keeps what mma.m16n8 of PTX has it keep of a
// tile's 16 rows, and of 16 or 8 columns (PTX 9.7.14.5). A thread makes its own sums, of what it
// hears from the threads that keep the rest of its rows and columns.
constexpr char kEmitter[] = R"python(
class TensorCoreIntrinEmitter:
    M_DIM = 16
    WARP_SIZE = 32

    def __init__(self, a_dtype="float16", b_dtype="float16", accum_dtype="float16",
                 a_transposed=False, b_transposed=False, block_row_warps=2, block_col_warps=2,
                 warp_row_tiles=8, warp_col_tiles=8, chunk=16, reduce_k=1, num_elems_per_byte=1,
                 is_m_first=False, thread_var=None):
        self.a_dtype, self.b_dtype = T.dtype(a_dtype), T.dtype(b_dtype)
        self.accum_dtype = T.dtype(accum_dtype)
        self.a_transposed, self.b_transposed = a_transposed, b_transposed
        self.block_row_warps, self.block_col_warps = block_row_warps, block_col_warps
        self.warp_row_tiles, self.warp_col_tiles = warp_row_tiles, warp_col_tiles
        self.chunk, self.reduce_k, self.is_m_first = chunk, reduce_k, bool(is_m_first)
        self.thread_var, self.num_elems_per_byte = thread_var, num_elems_per_byte
        assert self.a_dtype.bits == self.b_dtype.bits and self.a_dtype.bits in (8, 16, 32), \
            "the operands of TensorCoreIntrinEmitter have as many bits, 8, 16 or 32"
        assert num_elems_per_byte == 1, \
            "TensorCoreIntrinEmitter of packed operands: widen them into a tile, and use T.gemm"
        assert warp_row_tiles >= 16 and warp_row_tiles % 16 == 0, \
            "warp_row_tiles is a multiple of 16"
        assert warp_col_tiles >= 8 and warp_col_tiles % 8 == 0, "warp_col_tiles is a multiple of 8"
        self.k_dim = self.micro_size_k = min(256 // self.a_dtype.bits, chunk)
        assert self.k_dim % 8 == 0, "chunk is a multiple of 8"
        self.n_dim = self.micro_size_y = 16 if warp_col_tiles % 16 == 0 else 8
        self.micro_size_x = 16
        self.warp_rows = self.mma_num_inst_m = warp_row_tiles // 16
        self.warp_cols = self.mma_num_inst_n = warp_col_tiles // self.n_dim
        self.local_size_a = 16 * self.k_dim // 32
        self.local_size_b = self.n_dim * self.k_dim // 32
        self.local_size_out = 16 * self.n_dim // 32
        self.threads = 32 * block_row_warps * block_col_warps * reduce_k
        self.run = self.k_dim // 8

    def get_thread_binding(self):
        return T.get_thread_binding(0) if self.thread_var is None else self.thread_var

    def extract_thread_binding(self, thread_id, is_m_first=None):
        lane, warp = thread_id % 32, thread_id // 32
        rows, cols = self.block_row_warps, self.block_col_warps
        if self.is_m_first if is_m_first is None else is_m_first:
            return lane, warp % cols, warp // cols % rows
        return lane, warp // rows % cols, warp % rows

    def ldmatrix_a(self, A_local, A_shared, ki, rk=0):
        lane, _, warp_m = self.extract_thread_binding(self.get_thread_binding())
        for i in T.serial(self.warp_rows):
            for j in T.serial(self.local_size_a):
                part = j // self.run
                row = warp_m * self.warp_row_tiles + i * 16 + lane // 4 + 8 * (part % 2)
                col = rk * self.chunk + ki * self.k_dim + lane % 4 * self.run + j % self.run \
                    + part // 2 * (self.k_dim // 2)
                at = (col, row) if self.a_transposed else (row, col)
                A_local[i * self.local_size_a + j] = A_shared[at]

    def ldmatrix_b(self, B_local, B_shared, ki, rk=0):
        lane, warp_n, _ = self.extract_thread_binding(self.get_thread_binding())
        for i in T.serial(self.warp_cols):
            for j in T.serial(self.local_size_b):
                part = j // self.run
                row = warp_n * self.warp_col_tiles + i * self.n_dim + lane // 4 + 8 * (part // 2)
                col = rk * self.chunk + ki * self.k_dim + lane % 4 * self.run + j % self.run \
                    + part % 2 * (self.k_dim // 2)
                at = (row, col) if self.b_transposed else (col, row)
                B_local[i * self.local_size_b + j] = B_shared[at]

    @T.macro
    def mma(self, A_local, B_local, C_local, k_inner=0):
        for i in T.serial(self.warp_rows):
            for j in T.serial(self.warp_cols):
                self.mma_atom(A_local, B_local, C_local, i, j, k_inner)

    def mma_atom(self, A_local, B_local, C_local, inst_m_idx, inst_n_idx, k_inner=0):
        lane = self.get_thread_binding() % 32
        kind = T.int32 if self.a_dtype in (T.int8, T.uint8) else T.float32
        total = T.alloc_local((self.local_size_out,), kind)
        a = T.alloc_local((2,), kind)
        for c in T.serial(self.local_size_out):
            total[c] = 0
        for k in T.serial(self.k_dim):
            half, rest = k // (self.k_dim // 2), k % (self.k_dim // 2)
            holder, within = rest // self.run, rest % self.run
            for row in T.serial(2):
                own = A_local[inst_m_idx * self.local_size_a + (row + 2 * half) * self.run + within]
                a[row] = T.shfl_sync(T.cast(own, kind), lane // 4 * 4 + holder)
            for col in T.serial(self.local_size_out // 2):
                own = B_local[inst_n_idx * self.local_size_b
                              + (half + 2 * (col // 2)) * self.run + within]
                b = T.shfl_sync(T.cast(own, kind), (lane % 4 * 2 + col % 2) * 4 + holder)
                for row in T.serial(2):
                    total[col // 2 * 4 + row * 2 + col % 2] += a[row] * b
        first = (inst_m_idx * self.warp_cols + inst_n_idx) * self.local_size_out
        for c in T.serial(self.local_size_out):
            C_local[first + c] += total[c]

    def stmatrix(self, C_local, C_buf, pid_m=None, pid_n=None):
        assert len(C_buf.shape) in (2, 4), "stmatrix stores to a buffer of 2 or 4 dimensions"
        lane, warp_n, warp_m = self.extract_thread_binding(self.get_thread_binding())
        for i in T.serial(self.warp_rows):
            for j in T.serial(self.warp_cols):
                for c in T.serial(self.local_size_out):
                    row = lane // 4 + 8 * (c % 4 // 2)
                    col = lane % 4 * 2 + c % 2 + 8 * (c // 4)
                    m, n = warp_m * self.warp_rows + i, warp_n * self.warp_cols + j
                    if pid_m is not None:
                        m = m + pid_m * (self.block_row_warps * self.warp_rows)
                        n = n + pid_n * (self.block_col_warps * self.warp_cols)
                    place = (m, n, row, col) if len(C_buf.shape) == 4 else \
                        (m * 16 + row, n * self.n_dim + col)
                    C_buf[place] = C_local[(i * self.warp_cols + j) * self.local_size_out + c]
)python";

}  // namespace

const ast::Ast& BundledTree() {
  static const ast::Ast& tree = *[] {
    SourceFile file;
    file.path = "<kernel language>";
    file.text = absl::StrCat(kClasses, kEmitter);
    auto parsed = ParseSource(file, {}, /*positions=*/false);
    if (!parsed.ok()) std::abort();  // the text above is not Python
    return parsed->release();
  }();
  return tree;
}

}  // namespace kiln::lang
