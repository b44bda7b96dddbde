"""Budgets: .cc files 800 lines, .h files 400, functions 120, and no line over 100 columns."""
import re
import subprocess
import sys

LIMITS = {".cc": 800, ".c": 800, ".h": 400}
FUNCTION_LIMIT = 120
COLUMNS = 100


def functions(text):
    """(first line, length) of each brace block that closes at the indentation of its opener.

    clang-format puts a function's closing brace on a line of its own at the column where the
    function starts, so bodies at namespace and class level are found without a C++ parser.
    """
    opener = None
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.rstrip()
        indent = len(stripped) - len(stripped.lstrip())
        if opener is None:
            if (indent <= 2 and stripped.endswith("{") and ")" in stripped
                    and not re.match(r"\s*(//|\*|#|namespace|class|struct|enum|extern|union)",
                                     stripped)):
                opener, column = number, indent
        elif indent == column and stripped.strip() in ("}", "};"):
            yield opener, number - opener + 1
            opener = None


def check(name, text):
    suffix = name[name.rfind("."):]
    lines = text.split("\n")
    if len(lines) - 1 > LIMITS.get(suffix, 10**9):
        yield f"{name}: {len(lines) - 1} lines, the limit is {LIMITS[suffix]}"
    for number, line in enumerate(lines, 1):
        if len(line) > COLUMNS and "http" not in line and 'R"' not in line:
            yield f"{name}:{number}: {len(line)} columns"
    for first, length in functions(text):
        if length > FUNCTION_LIMIT:
            yield f"{name}:{first}: a function of {length} lines, the limit is {FUNCTION_LIMIT}"


def self_test():
    long_function = "void F() {\n" + "  x;\n" * 130 + "}\n"
    assert list(check("a.cc", long_function)), "a long function was not found"
    method = "class A {\n  void F() {\n" + "    x;\n" * 130 + "  }\n};\n"
    assert list(check("a.cc", method)), "a long method was not found"
    assert list(check("a.h", "x\n" * 500)), "a long header was not found"
    assert not list(check("a.cc", "void F() {\n  x;\n}\n")), "a short function was refused"


def main():
    self_test()
    names = subprocess.run(["git", "ls-files", "*.cc", "*.c", "*.h"], capture_output=True,
                           text=True, check=True).stdout.split()
    found = [v for n in names for v in check(n, open(n, encoding="utf-8").read())]
    print("\n".join(found) or f"{len(names)} files within budget")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
