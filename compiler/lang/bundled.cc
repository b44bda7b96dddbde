#include "compiler/lang/bundled.h"

#include <cstdlib>
#include <memory>

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
        self._current_iter[0] = 0
        self._linear_idx[0] = linear_init
        self.update_current_idx(self._linear_idx[0])

    def next_tile(self, step):
        self._current_iter[0] = self._current_iter[0] + 1
        self._linear_idx[0] = self._linear_idx[0] + step
        self.update_current_idx(self._linear_idx[0])

    def valid(self):
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
        for i in range(len(tiles)):
            given[i] = tiles[i]
        m_tiles, n_tiles, workers, swizzle, by_column, cluster, stateful, name = given
        assert m_tiles is not None and n_tiles is not None, \
            "a scheduler needs num_m_tiles and num_n_tiles"
        assert isinstance(swizzle, int) and swizzle >= 1, \
            "swizzle_size is a compile-time integer of at least 1"
        assert isinstance(cluster, int) and cluster >= 1, \
            "cluster_size is a compile-time integer of at least 1"
        assert not isinstance(workers, int) or workers >= 1, "num_workers is at least 1"
        BaseTileScheduler.__init__(self, prefix, stateful, name)
        self.cluster_size = cluster
        self.num_workers = driver.get_num_sms() // cluster if workers is None else workers
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

}  // namespace

const ast::Ast& BundledTree() {
  static const ast::Ast& tree = *[] {
    SourceFile file;
    file.path = "<kernel language>";
    file.text = kClasses;
    auto parsed = ParseSource(file, {}, /*positions=*/false);
    if (!parsed.ok()) std::abort();  // the text above is not Python
    return parsed->release();
  }();
  return tree;
}

}  // namespace kiln::lang
