import tilelang
import tilelang.language as T
try:
    from gone import a
except (KeyError, ImportError) as e:
    a = 1
else:
    a = 2
finally:
    b = a
from helper import BLOCK, kernel as k2
from broken import f
from large import *
@tilelang.jit
def kernel(n=4, m=BLOCK * 2 + b):
    @T.prim_func
    def main(x: T.Tensor((64,), "float32")):
        with T.Kernel(4, threads=32) as c:
            x[0] = f(1) if n > 4 else m
    return main

# kiln: from here on the text of helper.py
import tilelang
BLOCK = 8
def kernel(n=BLOCK):
    return n

# kiln: this is not Python, the text of broken.py
#|def f(:
#|    return 1

# kiln: this would make the text too large: large.py
