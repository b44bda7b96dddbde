"""Loops over elements of random kernels: bodies of several statements, views, atomic updates.

An iteration stores only its own elements, and reads of what the loop stores only those, so that a
statement done for all iterations at once is what every order of them does."""
import contextlib

from random_expressions import Expressions, Tile, as_held, bounds, np

VIEWS = {"int32": ("uint8", 4), "int64": ("uint16", 4), "float32": ("uint32", 1),
         "int16": ("uint8", 2), "float16": ("uint16", 1)}  # bits of, and how many an element
ATOMICS = {"add": np.add, "max": np.maximum, "min": np.minimum}


class Loops(Expressions):
    def __init__(self, seed):
        super().__init__(seed)
        self.lines, self.depth = [], 2
        self.names_made = 0
        self.bins = {}  # name: (operation, dtype, extent), of tensors that only atomics update

    def emit(self, text):
        self.lines.append("    " * self.depth + text)

    @contextlib.contextmanager
    def indented(self, head, **flags):
        """The lines under `head`, with attributes as given."""
        self.emit(head)
        before = {name: getattr(self, name) for name in flags}
        self.__dict__.update(flags)
        self.depth += 1
        yield
        self.depth -= 1
        self.__dict__.update(before)

    def new_name(self, letter):
        self.names_made += 1
        return f"{letter}{self.names_made}"

    def matching(self, test):
        found = [t for t in self.tiles if test(t)]
        return self.pick(found) if found else None

    @staticmethod
    def parallel_head(axes):
        return f"for {', '.join(axes)} in T.Parallel({', '.join(map(str, axes.values()))}):"

    @staticmethod
    def over(axes, body):
        """The step that does `body(memory, mask)` for all iterations."""
        def step(m):
            grid = np.meshgrid(*map(np.arange, axes.values()), indexing="ij")
            m.update(zip(axes, grid))
            body(m, np.ones(grid[0].shape, bool))
            for axis in axes:
                m.pop(axis)
        return step

    def parallel(self, where, _depth, targets=None):
        """A loop that stores `targets`, or some tiles of the same axes."""
        if not targets:
            first = self.pick(self.tiles)
            targets = [first]
            if self.chance(0.5):
                others = [t for t in self.tiles if t.axes == first.axes and t != first
                          and (t.memory != "fragment" or first.memory != "fragment")]
                targets += self.rng.sample(others, min(len(others), self.rng.randint(1, 2)))
        axes = dict(zip(targets[0].axes, targets[0].shape))
        inner = where._replace(axes=axes, stored=frozenset(t.name for t in targets))
        turned = dict(reversed(axes.items())) if self.chance(0.15) else axes
        with self.indented(self.parallel_head(turned)):
            bodies = [self.store(inner, t, self.rng.randint(1, 3)) for t in targets]
            if len(targets) > 1 or self.chance(0.3):
                bodies += self.bodies(inner, targets, 0)
        return self.over(axes, lambda m, mask: [body(m, mask) for body in bodies])

    # ---- the statements of a body: each becomes a function of memory and mask ----

    def store(self, where, tile, depth):
        """The iteration's element, perhaps under a condition that reads it."""
        own, value = tile.at(*tile.axes), self.stored_value(where, depth, tile.dtype)
        test = self.condition(where) if self.chance(0.4) else None
        other = None
        if not test:
            self.emit(f"{own} = {value.text}")
        else:
            with self.indented(f"if {test.text}:"):
                self.emit(f"{own} = {value.text}")
            if self.chance(0.3):
                other = self.stored_value(where, 1, tile.dtype)
                with self.indented("else:"):
                    self.emit(f"{own} = {other.text}")

        def body(m, mask):
            held = m[tile.name]
            new = np.broadcast_to(as_held(value.of(m), tile.dtype), held.shape)
            if test:
                rest = as_held(other.of(m), tile.dtype) if other else held
                new = np.where(test.of(m), new, rest)
            held[...] = np.where(mask, new, held)
        return body

    def bodies(self, where, targets, depth):
        """A few statements that follow each other; names they bind are gone after them."""
        out = []
        for _ in range(self.rng.randint(1, 3)):
            kind = self.rng.random()
            if kind < 0.25 and depth < 2:
                out.append(self.body_branch(where, targets, depth))
            elif kind < 0.35 and depth < 2:
                out.append(self.body_loop(where, targets, depth))
            elif kind < 0.5:
                name, value = self.new_name("x"), self.expr(where, 1)
                self.emit(f"{name} = {value.text}")
                out.append(lambda m, mask, name=name, value=value: m.update({name: value.of(m)}))
                where = where.plus(name)
            elif kind < 0.65 and self.bins:
                out.append(self.atomic(where))
            else:
                out.append(self.store(where, self.pick(targets), self.rng.randint(1, 2)))
        return out

    def body_branch(self, where, targets, depth):
        test = self.condition(where)
        with self.indented(f"if {test.text}:"):
            yes, no = self.bodies(where, targets, depth + 1), []
        if self.chance(0.4):
            with self.indented("else:"):
                no = self.bodies(where, targets, depth + 1)

        def body(m, mask):
            taken = np.broadcast_to(np.asarray(test.of(m), bool), mask.shape).copy()
            for step in yes:
                step(m, mask & taken)
            for step in no:
                step(m, mask & ~taken)
        return body

    def body_loop(self, where, targets, depth):
        name, count = self.new_name("q"), self.rng.randint(1, 3)
        with self.indented(f"for {name} in T.serial({count}):"):
            steps = self.bodies(where.plus(name), targets, depth + 1)

        def body(m, mask):
            for m[name] in range(count):
                for step in steps:
                    step(m, mask)
        return body

    def atomic(self, where):
        """An update of a bin that many iterations, and many blocks, may hit."""
        name = self.pick(sorted(self.bins))
        op, dtype, extent = self.bins[name]
        at, value = self.expr(where, 1), self.stored_value(where, 1, dtype)
        self.emit(f"T.atomic_{op}({name}[({at.text}) % {extent}], {value.text})")

        def body(m, mask):
            index, new = (np.broadcast_to(x.of(m), mask.shape)[mask] for x in (at, value))
            ATOMICS[op].at(m[name], index % extent, new)
        return body

    # ---- other loops over whole tiles ----

    def atomic_tile(self, _where, _depth):
        """A one-dimensional tile added to the bins from their first."""
        names = [n for n, (op, _, _) in sorted(self.bins.items()) if op == "add"]
        tile = self.matching(lambda t: len(t.axes) == 1 and t.memory != "global"
                             and any(self.bins[n][1] == t.dtype for n in names))
        if not tile:
            return None
        name = self.pick([n for n in names if self.bins[n][1] == tile.dtype])
        count = min(tile.shape[0], self.bins[name][2])
        self.emit(f"T.atomic_add({name}[0:{count}], {tile.name}[0:{count}])")

        def step(m):
            m[name][:count] += m[tile.name][:count]
        return step

    def make_small(self, tile):
        """Brings the elements into the range of stored expressions."""
        low, high = bounds(tile.dtype)
        own = tile.at(*tile.axes)
        with self.indented(self.parallel_head(dict(zip(tile.axes, tile.shape)))):
            value = own if tile.dtype == "int32" else f'T.cast({own}, "int32")'
            value = f"{value} % {high - low + 1}" + (f" - {-low}" if low else "")
            self.emit(f"{own} = "
                      + (value if tile.dtype == "int32" else f'T.cast({value}, "{tile.dtype}")'))

        def step(m):
            words = m[tile.name].astype(np.int64).astype(np.int32)  # a cast keeps the low word
            m[tile.name][...] = words % (high - low + 1) + low
        return step

    def view(self, where, _depth):
        """Another shape or type for a shared tile's memory: stored through it, read as itself."""
        tile = self.matching(lambda t: t.axes == "ij" and t.memory == "shared")
        if not tile:
            return None
        rows, columns = tile.shape
        if tile.dtype in VIEWS and self.chance(0.5):
            return self.bits(tile)
        shape = self.pick([(columns, rows), (rows * columns, 1), (1, rows * columns)])
        other = Tile(self.new_name("r"), "ij", shape, tile.dtype, "shared")
        self.emit(f"{other.name} = T.reshape({tile.name}, {shape})")
        fitting = {"ij": shape, "i": shape[:1], "j": shape[1:]}
        readable = [t for t in self.tiles if t.memory != "fragment" and t != tile
                    and t.shape == fitting[t.axes]]
        with self.only([other, *readable], self.variables):
            change = self.parallel(where, 0, [other])

        def step(m):
            m[other.name] = m[tile.name].reshape(shape)
            change(m)
        return step

    def bits(self, tile):
        """Inverts some of an integer's low bits, or clears a float's sign, by the words of it."""
        dtype, words = VIEWS[tile.dtype]
        rows, columns = tile.shape
        name, shape = self.new_name("b"), (rows, columns * words)
        real = tile.dtype.startswith("float")
        mask = (1 << 8 * int(np.dtype(dtype).itemsize) - 1) - 1 if real else self.rng.randint(1, 63)
        self.emit(f'{name} = T.view({tile.name}, {shape}, "{dtype}")')
        with self.indented(self.parallel_head({"i": rows, "j": shape[1]})):
            sign = "&" if real else "^"
            value = f'{name}[i, j] {sign} T.cast({mask}, "{dtype}")'
            self.emit(f"{name}[i, j] = {value}")
        small = self.make_small(tile)

        def step(m):
            held = np.ascontiguousarray(m[tile.name].astype(tile.dtype))
            seen = held.view(dtype)
            seen[...] = seen & mask if real else seen ^ mask
            m[tile.name][...] = held
            small(m)
        return step


