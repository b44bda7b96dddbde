#include "compiler/roofline/constants.h"

namespace kiln::roofline {

double SpecialWeight(ir::Intrinsic op) {
  switch (op) {
    case ir::Intrinsic::kExp2:
      return 0.9;  // no scaling of the argument
    case ir::Intrinsic::kExp:
      return 1.0;
    case ir::Intrinsic::kLog:
    case ir::Intrinsic::kLog2:
      return 1.3;  // exponent extraction and a longer polynomial
    case ir::Intrinsic::kSigmoid:
      return 2.0;  // an exponential and a division
    case ir::Intrinsic::kTanh:
      return 2.2;
    case ir::Intrinsic::kErf:
      return 2.5;
    case ir::Intrinsic::kSin:
    case ir::Intrinsic::kCos:
      return 2.0;  // range reduction
    case ir::Intrinsic::kPow:
      return 2.8;  // a logarithm and an exponential
    default:
      return 1.0;
  }
}

}  // namespace kiln::roofline
