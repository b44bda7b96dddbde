import tilelang
import tilelang.language as T
