#!/usr/bin/env python3
"""The coefficients of emit_wide.cc's erf: e^(x^2) erfc(x) for x from 1 to 6 as a polynomial in
t = (x - 3)/(x + 3), by interpolation at Chebyshev's points in 200 bits (mpmath)."""
from mpmath import chebyfit, erfc, exp, mp, mpf, nstr

COUNT, CENTRE, LOW, HIGH = 17, 3, 1, 6


def scaled(t):
    x = CENTRE * (1 + t) / (1 - t)
    return exp(x * x) * erfc(x)


mp.prec = 200
span = [mpf(x - CENTRE) / (x + CENTRE) for x in (LOW, HIGH)]
coefficients, error = chebyfit(scaled, span, COUNT, error=True)
print("// error", nstr(error, 3))
print(",\n".join(repr(float(c)) for c in reversed(coefficients)))
