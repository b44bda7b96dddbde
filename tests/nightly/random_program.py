"""Whole random kernels: what a seed gives, its text, its tensors and what must come out."""
import contextlib
from typing import NamedTuple

from random_expressions import (SMALL, STORAGE, WIDE, Tile, Where, as_held, bounds, np, number_type,
                                zeros)
from random_loops import ATOMICS
from random_statements import Statements, run

DTYPES = (*WIDE, *SMALL, "int32", "uint8", *STORAGE[:2])
ROWS = (1, 2, 3, 5, 8, 16, 16, 17, 32, 33, 64)
COLUMNS = (1, 3, 4, 8, 16, 16, 31, 32, 40, 64, 65)
PRODUCTS = {"float16": "float32", "bfloat16": "float32", "int8": "int32"}


class Case(NamedTuple):
    """Inputs and wanted outputs are values by tensor; `runtime`: sizes that only the call says."""
    source: str
    types: dict
    inputs: dict
    wanted: dict
    runtime: dict


class Program(Statements):
    """Every part of the kernel is drawn while it is made; `case()` runs the oracle."""

    def __init__(self, seed):
        super().__init__(seed)
        self.seed = seed
        self.threads = self.pick([32, 64, 96, 128, 128, 256, 256, 256])
        self.rows, self.columns = self.pick(ROWS), self.pick(COLUMNS)
        self.grid = self.pick([1, 1, 2, 3]), self.pick([1, 1, 2])
        self.inputs, self.outputs = {}, {}  # values, and tiles, by tensor
        self.steps, self.starts_of = [], {}
        self.sizes()
        self.memory()
        where = Where(("bx", "by", "m") if self.dynamic else ("bx", "by"))
        for tile in self.on_chip:
            self.emit(f"T.fill({tile.name}, {(value := self.rng.randint(0, 8))})")
            self.steps.append(lambda m, t=tile, v=value: m[t.name].fill(v))
        made = self.product(where) if self.threads >= 128 and self.chance(0.4) else None
        if made:
            self.steps.append(made)
        if not made or self.chance(0.6):
            self.steps.append(self.block(self.rng.randint(4, 9), where, 0))
        for tile in self.on_chip:
            self.write_out(tile)

    # ---- what there is ----

    def sizes(self):
        """Those of A and B: the tiles cover them, or leave them, or only begin to cover them."""
        r, c = self.rows, self.columns
        self.dynamic = self.chance(0.3)
        extent = self.pick([r, r + 1, 2 * r + 3, max(1, r - 1), r * self.grid[0]])
        if self.dynamic:
            self.grid = -(-extent // r), self.grid[1]
        shape = extent, self.pick([c, c + 5, 2 * c, max(1, c - 1), c * self.grid[1]])
        for name in "AB":
            self.give(name, self.pick(DTYPES), shape)
        self.give("V", "int32", (16,))

    def give(self, name, dtype, shape, top=None, stored=False):
        """A tensor of small integers, at most `top`; for all expressions where none is stored."""
        low, high = bounds(dtype) if top is None else (-top, top)
        if not stored:
            self.tensors[name] = dtype, shape
        self.inputs[name] = self.values.integers(low, high, shape, endpoint=True)

    def memory(self):
        """Tiles of every axis, some of them parts of tensors, variables, and bins."""
        axes = ["ij"] * self.rng.randint(2, 5) + ["i"] * self.rng.randint(1, 3)
        axes += ["j"] * self.rng.randint(0, 2)
        extents = {"i": self.rows, "j": self.columns}
        for number, axis in enumerate(axes):
            dtype = self.pick(DTYPES if axis == "ij" else (*WIDE, *WIDE, "float16", "bfloat16"))
            memory = self.rng.choices(["shared", "fragment", "global"], [5, 4, 2])[0]
            self.tiles.append(Tile(f"{'t' if axis == 'ij' else axis * 2}{number}", axis,
                                   tuple(extents[a] for a in axis), dtype, memory))
        self.on_chip = [t for t in self.tiles if t.memory != "global"]
        for tile in self.tiles:
            if tile.memory == "global":
                self.give(tile.name, tile.dtype, (*self.grid, *tile.shape), stored=True)
                self.outputs[tile.name] = tile
            else:
                self.emit(f'{tile.name} = T.alloc_{tile.memory}({tile.shape}, "{tile.dtype}")')
        for name in ("w0", "w1"):
            self.variables.append(name)
            self.starts_of[name] = self.rng.randint(-3, 5)
            self.emit(f'{name} = T.alloc_var("int32", {self.starts_of[name]})')
        for op in ATOMICS:
            if self.chance(0.3):
                name = f"H{op}"
                dtype = "float32" if op == "add" and self.chance(0.5) else "int32"
                self.bins[name] = op, dtype, self.rng.randint(1, 9)
                self.give(name, dtype, self.bins[name][2:], stored=True)

    def write_out(self, tile):
        name = f"O{tile.name}"
        self.outputs[name] = tile
        zero = ", 0" * len(tile.shape)
        self.emit(f"T.copy({tile.name}, {name}[bx, by{zero}])")
        self.steps.append(lambda m: np.copyto(m[name], m[tile.name]))

    # ---- products ----

    def product(self, where):
        """A pipelined product of small integers, in some of its turns something else instead. A table may
        say where a turn's tiles lie, and leave turns out."""
        dtype = self.pick(sorted(PRODUCTS))
        m, n = self.pick([64, 64, 128]), self.pick([16, 32, 64])
        k, turns = self.pick([32, 64]), self.rng.randint(1, 4)
        left = Tile("ga", "ij", (m, k), dtype, "shared")
        turned = self.chance(0.5)
        right = Tile("gb", "ij", (n, k) if turned else (k, n), dtype, "shared")
        total = Tile("gc", "ij", (m, n), PRODUCTS[dtype], "fragment")
        self.give("P", dtype, (m - self.pick([0, 3]), k * turns), 3)
        self.give("Q", dtype, (n, k * turns) if turned else (k * turns, n), 3)
        held = left._replace(name="gr", memory="fragment") if self.chance(0.3) else None
        for tile in filter(None, (left, right, total, held)):
            self.emit(f'{tile.name} = T.alloc_{tile.memory}({tile.shape}, "{tile.dtype}")')
        self.emit("T.clear(gc)")
        self.tensors["U"] = "int32", (turns,)
        self.inputs["U"] = self.values.integers(0, turns, (turns,))
        at = self.pick(["kk", "kk", "U[kk]", "page"])
        left_out = self.rng.randrange(turns) if self.chance(0.3) else None
        corner = f"0, {at} * {k}" if turned else f"{at} * {k}, 0"
        inner = where.plus("kk")
        gemm = f"T.gemm({'gr' if held else 'ga'}, gb, gc, transpose_B={turned})"
        test, extra, other = self.condition(inner) if self.chance(0.7) else None, None, None
        with contextlib.ExitStack() as loop:
            loop.enter_context(self.indented(
                f"for kk in T.Pipelined({turns}, num_stages={self.rng.randint(0, 4)}):",
                pipelined=True))
            if at == "page":
                self.emit("page = U[kk]")
            if left_out is not None:
                loop.enter_context(self.indented(f"if U[kk] != {left_out}:"))
            self.emit(f"T.copy(P[0, {at} * {k}], ga)")
            self.emit(f"T.copy(Q[{corner}], gb)")
            if held:
                self.emit("T.copy(ga, gr)")
            if self.chance(0.4):
                extra = self.block(1, inner, 1)
            if not test:
                self.emit(gemm)
            else:
                with self.indented(f"if {test.text}:"):
                    self.emit(gemm)
                with self.indented("else:"), self.only([total], self.variables):
                    other = self.parallel(inner, 0, [total])
        self.on_chip.append(total)

        def step(mem):
            for tile in (left, right, total):
                mem[tile.name] = zeros(tile)
            for turn in range(turns):
                if mem["U"][turn] == left_out:
                    continue
                first = k * (turn if at == "kk" else mem["U"][turn])
                mem["kk"], part = turn, slice(first, first + k)
                mem["ga"][:mem["P"].shape[0]] = mem["P"][:, part]
                mem["gb"][...] = mem["Q"][:, part] if turned else mem["Q"][part]
                if extra:
                    extra(mem)
                if test and not test.of(mem):
                    other(mem)
                else:
                    mem["gc"] += mem["ga"] @ (mem["gb"].T if turned else mem["gb"])
            mem.pop("kk", None)
        return step

    # ---- the kernel ----

    def types(self):
        out = {name: dtype for name, (dtype, _) in self.tensors.items()}
        out.update((name, tile.dtype) for name, tile in self.outputs.items())
        out.update((name, dtype) for name, (_, dtype, _) in self.bins.items())
        return out

    def source(self, types, shapes):
        parameters = []
        for name, dtype in types.items():
            sizes = [str(n) for n in shapes[name]]
            if self.dynamic and name in "AB":
                sizes[0] = "m"
            parameters.append(f'{name}: T.Tensor(({", ".join(sizes)},), "{dtype}")')
        first = f"T.ceildiv(m, {self.rows})" if self.dynamic else self.grid[0]
        head = ["import tilelang", "import tilelang.language as T", ""]
        head += ['m = T.dynamic("m")', ""] if self.dynamic else []
        head += ["", "@T.prim_func", "def kernel(" + (",\n" + " " * 11).join(parameters) + "):",
                 f"    with T.Kernel({first}, {self.grid[1]}, threads={self.threads}) as (bx, by):"]
        return "\n".join(head + self.lines) + "\n"

    def case(self):
        types = self.types()
        memory = {name: as_held(x, types[name]) for name, x in self.inputs.items()}
        for name, tile in self.outputs.items():
            memory.setdefault(name, np.zeros((*self.grid, *tile.shape), number_type(tile.dtype)))
        source = self.source(types, {name: x.shape for name, x in memory.items()})
        inputs = {name: memory[name].copy() for name in self.inputs}
        for bx in range(self.grid[0]):
            for by in range(self.grid[1]):
                m = {**memory, **self.starts_of, "bx": bx, "by": by,
                     "m": self.tensors["A"][1][0]}
                m.update((name, memory[name][bx, by]) for name in self.outputs)
                m.update((tile.name, zeros(tile)) for tile in self.on_chip)
                run(self.steps, m)
        wanted = {name: memory[name] for name in (*self.outputs, *self.bins)}
        runtime = {"m": self.tensors["A"][1][0]} if self.dynamic else {}
        return Case(source, types, inputs, wanted, runtime)


