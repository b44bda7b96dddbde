import tilelang
import tilelang.language as T
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        if a[0] == 1:
            a[0] = 0
        elif a[1] == 1:
            a[0] = 1
        elif a[2] == 1:
            a[0] = 2
        elif a[3] == 1:
            a[0] = 3
        elif a[4] == 1:
            a[0] = 4
        elif a[5] == 1:
            a[0] = 5
        elif a[6] == 1:
            a[0] = 6
        elif a[7] == 1:
            a[0] = 7
        elif a[8] == 1:
            a[0] = 8
        elif a[9] == 1:
            a[0] = 9
        elif a[10] == 1:
            a[0] = 10
        elif a[11] == 1:
            a[0] = 11
        elif a[12] == 1:
            a[0] = 12
        elif a[13] == 1:
            a[0] = 13
        elif a[14] == 1:
            a[0] = 14
        elif a[15] == 1:
            a[0] = 15
        elif a[16] == 1:
            a[0] = 16
        elif a[17] == 1:
            a[0] = 17
        elif a[18] == 1:
            a[0] = 18
        elif a[19] == 1:
            a[0] = 19
        elif a[20] == 1:
            a[0] = 20
        elif a[21] == 1:
            a[0] = 21
        elif a[22] == 1:
            a[0] = 22
        elif a[23] == 1:
            a[0] = 23
        elif a[24] == 1:
            a[0] = 24
        elif a[25] == 1:
            a[0] = 25
        elif a[26] == 1:
            a[0] = 26
        elif a[27] == 1:
            a[0] = 27
        elif a[28] == 1:
            a[0] = 28
        elif a[29] == 1:
            a[0] = 29
        elif a[30] == 1:
            a[0] = 30
        elif a[31] == 1:
            a[0] = 31
        elif a[32] == 1:
            a[0] = 32
        elif a[33] == 1:
            a[0] = 33
        elif a[34] == 1:
            a[0] = 34
        elif a[35] == 1:
            a[0] = 35
        elif a[36] == 1:
            a[0] = 36
        elif a[37] == 1:
            a[0] = 37
        elif a[38] == 1:
            a[0] = 38
        elif a[39] == 1:
            a[0] = 39
        elif a[40] == 1:
            a[0] = 40
        elif a[41] == 1:
            a[0] = 41
        elif a[42] == 1:
            a[0] = 42
        elif a[43] == 1:
            a[0] = 43
        elif a[44] == 1:
            a[0] = 44
        elif a[45] == 1:
            a[0] = 45
        elif a[46] == 1:
            a[0] = 46
        elif a[47] == 1:
            a[0] = 47
        elif a[48] == 1:
            a[0] = 48
        elif a[49] == 1:
            a[0] = 49
        elif a[50] == 1:
            a[0] = 50
        elif a[51] == 1:
            a[0] = 51
        elif a[52] == 1:
            a[0] = 52
        elif a[53] == 1:
            a[0] = 53
        elif a[54] == 1:
            a[0] = 54
        elif a[55] == 1:
            a[0] = 55
        elif a[56] == 1:
            a[0] = 56
        elif a[57] == 1:
            a[0] = 57
        elif a[58] == 1:
            a[0] = 58
        elif a[59] == 1:
            a[0] = 59
        elif a[60] == 1:
            a[0] = 60
        elif a[61] == 1:
            a[0] = 61
        elif a[62] == 1:
            a[0] = 62
        elif a[63] == 1:
            a[0] = 63
        elif a[0] == 1:
            a[0] = 64
        elif a[1] == 1:
            a[0] = 65
        elif a[2] == 1:
            a[0] = 66
        elif a[3] == 1:
            a[0] = 67
        elif a[4] == 1:
            a[0] = 68
        elif a[5] == 1:
            a[0] = 69
        elif a[6] == 1:
            a[0] = 70
        elif a[7] == 1:
            a[0] = 71
        elif a[8] == 1:
            a[0] = 72
        elif a[9] == 1:
            a[0] = 73
        elif a[10] == 1:
            a[0] = 74
        elif a[11] == 1:
            a[0] = 75
        elif a[12] == 1:
            a[0] = 76
        elif a[13] == 1:
            a[0] = 77
        elif a[14] == 1:
            a[0] = 78
        elif a[15] == 1:
            a[0] = 79
        elif a[16] == 1:
            a[0] = 80
        elif a[17] == 1:
            a[0] = 81
        elif a[18] == 1:
            a[0] = 82
        elif a[19] == 1:
            a[0] = 83
        elif a[20] == 1:
            a[0] = 84
        elif a[21] == 1:
            a[0] = 85
        elif a[22] == 1:
            a[0] = 86
        elif a[23] == 1:
            a[0] = 87
        elif a[24] == 1:
            a[0] = 88
        elif a[25] == 1:
            a[0] = 89
        elif a[26] == 1:
            a[0] = 90
        elif a[27] == 1:
            a[0] = 91
        elif a[28] == 1:
            a[0] = 92
        elif a[29] == 1:
            a[0] = 93
        elif a[30] == 1:
            a[0] = 94
        elif a[31] == 1:
            a[0] = 95
        elif a[32] == 1:
            a[0] = 96
        elif a[33] == 1:
            a[0] = 97
        elif a[34] == 1:
            a[0] = 98
        elif a[35] == 1:
            a[0] = 99
        elif a[36] == 1:
            a[0] = 100
        elif a[37] == 1:
            a[0] = 101
        elif a[38] == 1:
            a[0] = 102
        elif a[39] == 1:
            a[0] = 103
        elif a[40] == 1:
            a[0] = 104
        elif a[41] == 1:
            a[0] = 105
        elif a[42] == 1:
            a[0] = 106
        elif a[43] == 1:
            a[0] = 107
        elif a[44] == 1:
            a[0] = 108
        elif a[45] == 1:
            a[0] = 109
        elif a[46] == 1:
            a[0] = 110
        elif a[47] == 1:
            a[0] = 111
        elif a[48] == 1:
            a[0] = 112
        elif a[49] == 1:
            a[0] = 113
        elif a[50] == 1:
            a[0] = 114
        elif a[51] == 1:
            a[0] = 115
        elif a[52] == 1:
            a[0] = 116
        elif a[53] == 1:
            a[0] = 117
        elif a[54] == 1:
            a[0] = 118
        elif a[55] == 1:
            a[0] = 119
        elif a[56] == 1:
            a[0] = 120
        elif a[57] == 1:
            a[0] = 121
        elif a[58] == 1:
            a[0] = 122
        elif a[59] == 1:
            a[0] = 123
        elif a[60] == 1:
            a[0] = 124
        elif a[61] == 1:
            a[0] = 125
        elif a[62] == 1:
            a[0] = 126
        elif a[63] == 1:
            a[0] = 127
        elif a[0] == 1:
            a[0] = 128
        elif a[1] == 1:
            a[0] = 129
        elif a[2] == 1:
            a[0] = 130
        elif a[3] == 1:
            a[0] = 131
        elif a[4] == 1:
            a[0] = 132
        elif a[5] == 1:
            a[0] = 133
        elif a[6] == 1:
            a[0] = 134
        elif a[7] == 1:
            a[0] = 135
        elif a[8] == 1:
            a[0] = 136
        elif a[9] == 1:
            a[0] = 137
        elif a[10] == 1:
            a[0] = 138
        elif a[11] == 1:
            a[0] = 139
        elif a[12] == 1:
            a[0] = 140
        elif a[13] == 1:
            a[0] = 141
        elif a[14] == 1:
            a[0] = 142
        elif a[15] == 1:
            a[0] = 143
        elif a[16] == 1:
            a[0] = 144
        elif a[17] == 1:
            a[0] = 145
        elif a[18] == 1:
            a[0] = 146
        elif a[19] == 1:
            a[0] = 147
        elif a[20] == 1:
            a[0] = 148
        elif a[21] == 1:
            a[0] = 149
        elif a[22] == 1:
            a[0] = 150
        elif a[23] == 1:
            a[0] = 151
        elif a[24] == 1:
            a[0] = 152
        elif a[25] == 1:
            a[0] = 153
        elif a[26] == 1:
            a[0] = 154
        elif a[27] == 1:
            a[0] = 155
        elif a[28] == 1:
            a[0] = 156
        elif a[29] == 1:
            a[0] = 157
        elif a[30] == 1:
            a[0] = 158
        elif a[31] == 1:
            a[0] = 159
        elif a[32] == 1:
            a[0] = 160
        elif a[33] == 1:
            a[0] = 161
        elif a[34] == 1:
            a[0] = 162
        elif a[35] == 1:
            a[0] = 163
        elif a[36] == 1:
            a[0] = 164
        elif a[37] == 1:
            a[0] = 165
        elif a[38] == 1:
            a[0] = 166
        elif a[39] == 1:
            a[0] = 167
        elif a[40] == 1:
            a[0] = 168
        elif a[41] == 1:
            a[0] = 169
        elif a[42] == 1:
            a[0] = 170
        elif a[43] == 1:
            a[0] = 171
        elif a[44] == 1:
            a[0] = 172
        elif a[45] == 1:
            a[0] = 173
        elif a[46] == 1:
            a[0] = 174
        elif a[47] == 1:
            a[0] = 175
        elif a[48] == 1:
            a[0] = 176
        elif a[49] == 1:
            a[0] = 177
        elif a[50] == 1:
            a[0] = 178
        elif a[51] == 1:
            a[0] = 179
        elif a[52] == 1:
            a[0] = 180
        elif a[53] == 1:
            a[0] = 181
        elif a[54] == 1:
            a[0] = 182
        elif a[55] == 1:
            a[0] = 183
        elif a[56] == 1:
            a[0] = 184
        elif a[57] == 1:
            a[0] = 185
        elif a[58] == 1:
            a[0] = 186
        elif a[59] == 1:
            a[0] = 187
        elif a[60] == 1:
            a[0] = 188
        elif a[61] == 1:
            a[0] = 189
        elif a[62] == 1:
            a[0] = 190
        elif a[63] == 1:
            a[0] = 191
        elif a[0] == 1:
            a[0] = 192
        elif a[1] == 1:
            a[0] = 193
        elif a[2] == 1:
            a[0] = 194
        elif a[3] == 1:
            a[0] = 195
        elif a[4] == 1:
            a[0] = 196
        elif a[5] == 1:
            a[0] = 197
        elif a[6] == 1:
            a[0] = 198
        elif a[7] == 1:
            a[0] = 199
        elif a[8] == 1:
            a[0] = 200
        elif a[9] == 1:
            a[0] = 201
        elif a[10] == 1:
            a[0] = 202
        elif a[11] == 1:
            a[0] = 203
        elif a[12] == 1:
            a[0] = 204
        elif a[13] == 1:
            a[0] = 205
        elif a[14] == 1:
            a[0] = 206
        elif a[15] == 1:
            a[0] = 207
        elif a[16] == 1:
            a[0] = 208
        elif a[17] == 1:
            a[0] = 209
        elif a[18] == 1:
            a[0] = 210
        elif a[19] == 1:
            a[0] = 211
        elif a[20] == 1:
            a[0] = 212
        elif a[21] == 1:
            a[0] = 213
        elif a[22] == 1:
            a[0] = 214
        elif a[23] == 1:
            a[0] = 215
        elif a[24] == 1:
            a[0] = 216
        elif a[25] == 1:
            a[0] = 217
        elif a[26] == 1:
            a[0] = 218
        elif a[27] == 1:
            a[0] = 219
        elif a[28] == 1:
            a[0] = 220
        elif a[29] == 1:
            a[0] = 221
        elif a[30] == 1:
            a[0] = 222
        elif a[31] == 1:
            a[0] = 223
        elif a[32] == 1:
            a[0] = 224
        elif a[33] == 1:
            a[0] = 225
        elif a[34] == 1:
            a[0] = 226
        elif a[35] == 1:
            a[0] = 227
        elif a[36] == 1:
            a[0] = 228
        elif a[37] == 1:
            a[0] = 229
        elif a[38] == 1:
            a[0] = 230
        elif a[39] == 1:
            a[0] = 231
        elif a[40] == 1:
            a[0] = 232
        elif a[41] == 1:
            a[0] = 233
        elif a[42] == 1:
            a[0] = 234
        elif a[43] == 1:
            a[0] = 235
        elif a[44] == 1:
            a[0] = 236
        elif a[45] == 1:
            a[0] = 237
        elif a[46] == 1:
            a[0] = 238
        elif a[47] == 1:
            a[0] = 239
        elif a[48] == 1:
            a[0] = 240
        elif a[49] == 1:
            a[0] = 241
        elif a[50] == 1:
            a[0] = 242
        elif a[51] == 1:
            a[0] = 243
        elif a[52] == 1:
            a[0] = 244
        elif a[53] == 1:
            a[0] = 245
        elif a[54] == 1:
            a[0] = 246
        elif a[55] == 1:
            a[0] = 247
        elif a[56] == 1:
            a[0] = 248
        elif a[57] == 1:
            a[0] = 249
        elif a[58] == 1:
            a[0] = 250
        elif a[59] == 1:
            a[0] = 251
        elif a[60] == 1:
            a[0] = 252
        elif a[61] == 1:
            a[0] = 253
        elif a[62] == 1:
            a[0] = 254
        elif a[63] == 1:
            a[0] = 255
        elif a[0] == 1:
            a[0] = 256
        elif a[1] == 1:
            a[0] = 257
        elif a[2] == 1:
            a[0] = 258
        elif a[3] == 1:
            a[0] = 259
        elif a[4] == 1:
            a[0] = 260
        elif a[5] == 1:
            a[0] = 261
        elif a[6] == 1:
            a[0] = 262
        elif a[7] == 1:
            a[0] = 263
        elif a[8] == 1:
            a[0] = 264
        elif a[9] == 1:
            a[0] = 265
        elif a[10] == 1:
            a[0] = 266
        elif a[11] == 1:
            a[0] = 267
        elif a[12] == 1:
            a[0] = 268
        elif a[13] == 1:
            a[0] = 269
        elif a[14] == 1:
            a[0] = 270
        elif a[15] == 1:
            a[0] = 271
        elif a[16] == 1:
            a[0] = 272
        elif a[17] == 1:
            a[0] = 273
        elif a[18] == 1:
            a[0] = 274
        elif a[19] == 1:
            a[0] = 275
        elif a[20] == 1:
            a[0] = 276
        elif a[21] == 1:
            a[0] = 277
        elif a[22] == 1:
            a[0] = 278
        elif a[23] == 1:
            a[0] = 279
        elif a[24] == 1:
            a[0] = 280
        elif a[25] == 1:
            a[0] = 281
        elif a[26] == 1:
            a[0] = 282
        elif a[27] == 1:
            a[0] = 283
        elif a[28] == 1:
            a[0] = 284
        elif a[29] == 1:
            a[0] = 285
        elif a[30] == 1:
            a[0] = 286
        elif a[31] == 1:
            a[0] = 287
        elif a[32] == 1:
            a[0] = 288
        elif a[33] == 1:
            a[0] = 289
        elif a[34] == 1:
            a[0] = 290
        elif a[35] == 1:
            a[0] = 291
        elif a[36] == 1:
            a[0] = 292
        elif a[37] == 1:
            a[0] = 293
        elif a[38] == 1:
            a[0] = 294
        elif a[39] == 1:
            a[0] = 295
        elif a[40] == 1:
            a[0] = 296
        elif a[41] == 1:
            a[0] = 297
        elif a[42] == 1:
            a[0] = 298
        elif a[43] == 1:
            a[0] = 299
