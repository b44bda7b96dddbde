#include "compiler/lang/look_alikes.h"

#include <iterator>

namespace kiln::lang {
namespace {

constexpr LookAlike kRows[] = {
    {"\xe2\x80\x98", "LEFT SINGLE QUOTATION MARK (U+2018)", "a plain quote, '"},
    {"\xe2\x80\x99", "RIGHT SINGLE QUOTATION MARK (U+2019)", "a plain quote, '"},
    {"\xe2\x80\x9a", "SINGLE LOW-9 QUOTATION MARK (U+201A)", "a plain quote, '"},
    {"\xe2\x80\x9b", "SINGLE HIGH-REVERSED-9 QUOTATION MARK (U+201B)", "a plain quote, '"},
    {"\xe2\x80\xb2", "PRIME (U+2032)", "a plain quote, '"},
    {"\xef\xbc\x87", "FULLWIDTH APOSTROPHE (U+FF07)", "a plain quote, '"},
    {"\xc2\xb4", "ACUTE ACCENT (U+00B4)", "a plain quote, '"},
    {"\xef\xbd\x80", "FULLWIDTH GRAVE ACCENT (U+FF40)", "a plain quote, '"},
    {"\xe2\x80\x9c", "LEFT DOUBLE QUOTATION MARK (U+201C)", "a plain quote, \""},
    {"\xe2\x80\x9d", "RIGHT DOUBLE QUOTATION MARK (U+201D)", "a plain quote, \""},
    {"\xe2\x80\x9e", "DOUBLE LOW-9 QUOTATION MARK (U+201E)", "a plain quote, \""},
    {"\xe2\x80\x9f", "DOUBLE HIGH-REVERSED-9 QUOTATION MARK (U+201F)", "a plain quote, \""},
    {"\xe2\x80\xb3", "DOUBLE PRIME (U+2033)", "a plain quote, \""},
    {"\xc2\xab", "LEFT-POINTING DOUBLE ANGLE QUOTATION MARK (U+00AB)", "a plain quote, \""},
    {"\xc2\xbb", "RIGHT-POINTING DOUBLE ANGLE QUOTATION MARK (U+00BB)", "a plain quote, \""},
    {"\xef\xbc\x82", "FULLWIDTH QUOTATION MARK (U+FF02)", "a plain quote, \""},
    {"\xe2\x80\x93", "EN DASH (U+2013)", "a plain minus, -"},
    {"\xe2\x80\x94", "EM DASH (U+2014)", "a plain minus, -"},
    {"\xe2\x88\x92", "MINUS SIGN (U+2212)", "a plain minus, -"},
    {"\xe2\x80\x90", "HYPHEN (U+2010)", "a plain minus, -"},
    {"\xe2\x80\x91", "NON-BREAKING HYPHEN (U+2011)", "a plain minus, -"},
    {"\xe2\x80\x92", "FIGURE DASH (U+2012)", "a plain minus, -"},
    {"\xe2\x80\x95", "HORIZONTAL BAR (U+2015)", "a plain minus, -"},
    {"\xef\xbc\x8d", "FULLWIDTH HYPHEN-MINUS (U+FF0D)", "a plain minus, -"},
    {"\xc3\x97", "MULTIPLICATION SIGN (U+00D7)", "an asterisk, *"},
    {"\xe2\x88\x97", "ASTERISK OPERATOR (U+2217)", "an asterisk, *"},
    {"\xe2\x81\x8e", "LOW ASTERISK (U+204E)", "an asterisk, *"},
    {"\xef\xbc\x8a", "FULLWIDTH ASTERISK (U+FF0A)", "an asterisk, *"},
    {"\xc3\xb7", "DIVISION SIGN (U+00F7)", "a slash, /"},
    {"\xe2\x88\x95", "DIVISION SLASH (U+2215)", "a slash, /"},
    {"\xe2\x81\x84", "FRACTION SLASH (U+2044)", "a slash, /"},
    {"\xef\xbc\x8f", "FULLWIDTH SOLIDUS (U+FF0F)", "a slash, /"},
    {"\xe2\x89\xa4", "LESS-THAN OR EQUAL TO (U+2264)", "<="},
    {"\xe2\x89\xa5", "GREATER-THAN OR EQUAL TO (U+2265)", ">="},
    {"\xe2\x89\xa0", "NOT EQUAL TO (U+2260)", "!="},
    {"\xe2\x86\x92", "RIGHTWARDS ARROW (U+2192)", "->"},
    {"\xe2\x80\xa6", "HORIZONTAL ELLIPSIS (U+2026)", "three dots, ..."},
    {"\xe2\x8b\xaf", "MIDLINE HORIZONTAL ELLIPSIS (U+22EF)", "three dots, ..."},
    {"\xc2\xa0", "NO-BREAK SPACE (U+00A0)", "a plain space"},
    {"\xe2\x80\x82", "EN SPACE (U+2002)", "a plain space"},
    {"\xe2\x80\x83", "EM SPACE (U+2003)", "a plain space"},
    {"\xe2\x80\x85", "FOUR-PER-EM SPACE (U+2005)", "a plain space"},
    {"\xe2\x80\x86", "SIX-PER-EM SPACE (U+2006)", "a plain space"},
    {"\xe2\x80\x87", "FIGURE SPACE (U+2007)", "a plain space"},
    {"\xe2\x80\x88", "PUNCTUATION SPACE (U+2008)", "a plain space"},
    {"\xe2\x80\x89", "THIN SPACE (U+2009)", "a plain space"},
    {"\xe2\x80\x8a", "HAIR SPACE (U+200A)", "a plain space"},
    {"\xe2\x80\xaf", "NARROW NO-BREAK SPACE (U+202F)", "a plain space"},
    {"\xe2\x81\x9f", "MEDIUM MATHEMATICAL SPACE (U+205F)", "a plain space"},
    {"\xe3\x80\x80", "IDEOGRAPHIC SPACE (U+3000)", "a plain space"},
    {"\xe2\x80\x8b", "ZERO WIDTH SPACE (U+200B)", "nothing: it is invisible"},
    {"\xe2\x80\x8c", "ZERO WIDTH NON-JOINER (U+200C)", "nothing: it is invisible"},
    {"\xe2\x80\x8d", "ZERO WIDTH JOINER (U+200D)", "nothing: it is invisible"},
    {"\xe2\x81\xa0", "WORD JOINER (U+2060)", "nothing: it is invisible"},
    {"\xef\xbb\xbf", "ZERO WIDTH NO-BREAK SPACE (U+FEFF)", "nothing: it is invisible"},
    {"\xc2\xad", "SOFT HYPHEN (U+00AD)", "nothing: it is invisible"},
    {"\xef\xbc\x88", "FULLWIDTH LEFT PARENTHESIS (U+FF08)", "("},
    {"\xef\xbc\x89", "FULLWIDTH RIGHT PARENTHESIS (U+FF09)", ")"},
    {"\xef\xbc\xbb", "FULLWIDTH LEFT SQUARE BRACKET (U+FF3B)", "["},
    {"\xef\xbc\xbd", "FULLWIDTH RIGHT SQUARE BRACKET (U+FF3D)", "]"},
    {"\xef\xbd\x9b", "FULLWIDTH LEFT CURLY BRACKET (U+FF5B)", "{"},
    {"\xef\xbd\x9d", "FULLWIDTH RIGHT CURLY BRACKET (U+FF5D)", "}"},
    {"\xef\xbc\x8c", "FULLWIDTH COMMA (U+FF0C)", ","},
    {"\xef\xbc\x9a", "FULLWIDTH COLON (U+FF1A)", ":"},
    {"\xef\xbc\x9b", "FULLWIDTH SEMICOLON (U+FF1B)", ";"},
    {"\xef\xbc\x9d", "FULLWIDTH EQUALS SIGN (U+FF1D)", "="},
    {"\xef\xbc\x8b", "FULLWIDTH PLUS SIGN (U+FF0B)", "+"},
    {"\xef\xbc\x9c", "FULLWIDTH LESS-THAN SIGN (U+FF1C)", "<"},
    {"\xef\xbc\x9e", "FULLWIDTH GREATER-THAN SIGN (U+FF1E)", ">"},
    {"\xef\xbc\x8e", "FULLWIDTH FULL STOP (U+FF0E)", "."},
    {"\xef\xbc\x85", "FULLWIDTH PERCENT SIGN (U+FF05)", "%"},
    {"\xef\xbc\x86", "FULLWIDTH AMPERSAND (U+FF06)", "&"},
    {"\xef\xbd\x9c", "FULLWIDTH VERTICAL LINE (U+FF5C)", "|"},
    {"\xef\xbc\xbe", "FULLWIDTH CIRCUMFLEX ACCENT (U+FF3E)", "^"},
    {"\xef\xbd\x9e", "FULLWIDTH TILDE (U+FF5E)", "~"},
    {"\xef\xbc\xa0", "FULLWIDTH COMMERCIAL AT (U+FF20)", "@"},
    {"\xe3\x80\x81", "IDEOGRAPHIC COMMA (U+3001)", ","},
    {"\xe3\x80\x82", "IDEOGRAPHIC FULL STOP (U+3002)", "."},
    {"\xe2\x88\xb6", "RATIO (U+2236)", ":"},
};

}  // namespace

const LookAlike* FindLookAlike(absl::string_view text) {
  for (const LookAlike& row : kRows) {
    if (text.substr(0, row.text.size()) == row.text) return &row;
  }
  return nullptr;
}

}  // namespace kiln::lang
