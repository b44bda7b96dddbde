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
        assert self.stateful, \
            "a scheduler with stateful=False holds no place in the tiles: ask its coord(tile_id)"
        self._current_iter[0] = self._current_iter[0] + 1
        self._linear_idx[0] = self._linear_idx[0] + self.num_workers
        self.update_current_idx(self._linear_idx[0])
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
