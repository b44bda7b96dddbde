"""The bars of the layouts: the algebra, and the inference on top of it. Run through tests/bars.sh."""
import functools
import sys
import time

from common import BIN, at_most, build, ctest, main, number, run


@functools.lru_cache(None)
def layout_bench():
    build("layout_bench")
    return run([BIN / "layout_bench"], codes=(0, 1))


def speed(name):
    """A line of layout_bench: its own bar is twice the time of the reference prototype."""
    def measure():
        value = number(rf"layout_{name}_ms (\S+)", layout_bench())
        return at_most(value, number(rf"layout_{name}_ms \S+ (\S+)", layout_bench()))
    return measure


def inference_ms():
    build("inference_bench")
    return at_most(number(r"inference_attention_ms (\S+)", run([BIN / "inference_bench"])), 20)


def tests_seconds():
    start = time.monotonic()
    run(["tests/run.sh"])
    return at_most(time.monotonic() - start, 40 * 60)


BARS = {
    "acceptance_numbers": lambda: ctest(["-R", "layout_golden_test|layout_draw_golden_test"]),
    "algebra_properties": lambda: ctest(["-R", "^layout_property_test"]),
    "inference_stories": lambda: ctest(["-R", "explain_layouts_golden_test"]),
    "inference_against_threads": lambda: ctest(["-R", "infer_layouts|partition_property"]),
    "lowering_simulation": lambda: ctest(["-R", "thread_maps_test|partition_property"]),
    "reported_cases": lambda: ctest(["-R", "reported_cases_test"]),
    "table_ms": speed("table_131072"),
    "factor_ms": speed("factor_131072"),
    "injective_ms": speed("injective_131072"),
    "decode_ms": speed("decode_131072"),
    "beyond_2_18_elements_ms": speed("factor_2e20"),
    "inference_attention_ms": inference_ms,
    "page": lambda: ctest(["-R", "layout_page_test"]),
    "glossary": lambda: ctest(["-R", "^layout_test"]),
    "tests_seconds": tests_seconds,
}


if __name__ == "__main__":
    sys.exit(main(BARS, sys.argv[1:]))
