import tilelang
import tilelang.language as T
def f(x):
    if x == 0:
        return 0
    elif x == 1:
        return 1
    elif x == 2:
        return 2
    elif x == 3:
        return 3
    elif x == 4:
        return 4
    elif x == 5:
        return 5
    elif x == 6:
        return 6
    elif x == 7:
        return 7
    elif x == 8:
        return 8
    elif x == 9:
        return 9
    elif x == 10:
        return 10
    elif x == 11:
        return 11
    elif x == 12:
        return 12
    elif x == 13:
        return 13
    elif x == 14:
        return 14
    elif x == 15:
        return 15
    elif x == 16:
        return 16
    elif x == 17:
        return 17
    elif x == 18:
        return 18
    elif x == 19:
        return 19
    elif x == 20:
        return 20
    elif x == 21:
        return 21
    elif x == 22:
        return 22
    elif x == 23:
        return 23
    elif x == 24:
        return 24
    elif x == 25:
        return 25
    elif x == 26:
        return 26
    elif x == 27:
        return 27
    elif x == 28:
        return 28
    elif x == 29:
        return 29
    elif x == 30:
        return 30
    elif x == 31:
        return 31
    elif x == 32:
        return 32
    elif x == 33:
        return 33
    elif x == 34:
        return 34
    elif x == 35:
        return 35
    elif x == 36:
        return 36
    elif x == 37:
        return 37
    elif x == 38:
        return 38
    elif x == 39:
        return 39
    elif x == 40:
        return 40
    elif x == 41:
        return 41
    elif x == 42:
        return 42
    elif x == 43:
        return 43
    elif x == 44:
        return 44
    elif x == 45:
        return 45
    elif x == 46:
        return 46
    elif x == 47:
        return 47
    elif x == 48:
        return 48
    elif x == 49:
        return 49
    elif x == 50:
        return 50
    elif x == 51:
        return 51
    elif x == 52:
        return 52
    elif x == 53:
        return 53
    elif x == 54:
        return 54
    elif x == 55:
        return 55
    elif x == 56:
        return 56
    elif x == 57:
        return 57
    elif x == 58:
        return 58
    elif x == 59:
        return 59
    elif x == 60:
        return 60
    elif x == 61:
        return 61
    elif x == 62:
        return 62
    elif x == 63:
        return 63
    elif x == 64:
        return 64
    elif x == 65:
        return 65
    elif x == 66:
        return 66
    elif x == 67:
        return 67
    elif x == 68:
        return 68
    elif x == 69:
        return 69
    elif x == 70:
        return 70
    elif x == 71:
        return 71
    elif x == 72:
        return 72
    elif x == 73:
        return 73
    elif x == 74:
        return 74
    elif x == 75:
        return 75
    elif x == 76:
        return 76
    elif x == 77:
        return 77
    elif x == 78:
        return 78
    elif x == 79:
        return 79
    elif x == 80:
        return 80
    elif x == 81:
        return 81
    elif x == 82:
        return 82
    elif x == 83:
        return 83
    elif x == 84:
        return 84
    elif x == 85:
        return 85
    elif x == 86:
        return 86
    elif x == 87:
        return 87
    elif x == 88:
        return 88
    elif x == 89:
        return 89
    elif x == 90:
        return 90
    elif x == 91:
        return 91
    elif x == 92:
        return 92
    elif x == 93:
        return 93
    elif x == 94:
        return 94
    elif x == 95:
        return 95
    elif x == 96:
        return 96
    elif x == 97:
        return 97
    elif x == 98:
        return 98
    elif x == 99:
        return 99
    elif x == 100:
        return 100
    elif x == 101:
        return 101
    elif x == 102:
        return 102
    elif x == 103:
        return 103
    elif x == 104:
        return 104
    elif x == 105:
        return 105
    elif x == 106:
        return 106
    elif x == 107:
        return 107
    elif x == 108:
        return 108
    elif x == 109:
        return 109
    elif x == 110:
        return 110
    elif x == 111:
        return 111
    elif x == 112:
        return 112
    elif x == 113:
        return 113
    elif x == 114:
        return 114
    elif x == 115:
        return 115
    elif x == 116:
        return 116
    elif x == 117:
        return 117
    elif x == 118:
        return 118
    elif x == 119:
        return 119
    elif x == 120:
        return 120
    elif x == 121:
        return 121
    elif x == 122:
        return 122
    elif x == 123:
        return 123
    elif x == 124:
        return 124
    elif x == 125:
        return 125
    elif x == 126:
        return 126
    elif x == 127:
        return 127
    elif x == 128:
        return 128
    elif x == 129:
        return 129
    elif x == 130:
        return 130
    elif x == 131:
        return 131
    elif x == 132:
        return 132
    elif x == 133:
        return 133
    elif x == 134:
        return 134
    elif x == 135:
        return 135
    elif x == 136:
        return 136
    elif x == 137:
        return 137
    elif x == 138:
        return 138
    elif x == 139:
        return 139
    elif x == 140:
        return 140
    elif x == 141:
        return 141
    elif x == 142:
        return 142
    elif x == 143:
        return 143
    elif x == 144:
        return 144
    elif x == 145:
        return 145
    elif x == 146:
        return 146
    elif x == 147:
        return 147
    elif x == 148:
        return 148
    elif x == 149:
        return 149
    elif x == 150:
        return 150
    elif x == 151:
        return 151
    elif x == 152:
        return 152
    elif x == 153:
        return 153
    elif x == 154:
        return 154
    elif x == 155:
        return 155
    elif x == 156:
        return 156
    elif x == 157:
        return 157
    elif x == 158:
        return 158
    elif x == 159:
        return 159
    elif x == 160:
        return 160
    elif x == 161:
        return 161
    elif x == 162:
        return 162
    elif x == 163:
        return 163
    elif x == 164:
        return 164
    elif x == 165:
        return 165
    elif x == 166:
        return 166
    elif x == 167:
        return 167
    elif x == 168:
        return 168
    elif x == 169:
        return 169
    elif x == 170:
        return 170
    elif x == 171:
        return 171
    elif x == 172:
        return 172
    elif x == 173:
        return 173
    elif x == 174:
        return 174
    elif x == 175:
        return 175
    elif x == 176:
        return 176
    elif x == 177:
        return 177
    elif x == 178:
        return 178
    elif x == 179:
        return 179
    elif x == 180:
        return 180
    elif x == 181:
        return 181
    elif x == 182:
        return 182
    elif x == 183:
        return 183
    elif x == 184:
        return 184
    elif x == 185:
        return 185
    elif x == 186:
        return 186
    elif x == 187:
        return 187
    elif x == 188:
        return 188
    elif x == 189:
        return 189
    elif x == 190:
        return 190
    elif x == 191:
        return 191
    elif x == 192:
        return 192
    elif x == 193:
        return 193
    elif x == 194:
        return 194
    elif x == 195:
        return 195
    elif x == 196:
        return 196
    elif x == 197:
        return 197
    elif x == 198:
        return 198
    elif x == 199:
        return 199
    elif x == 200:
        return 200
    elif x == 201:
        return 201
    elif x == 202:
        return 202
    elif x == 203:
        return 203
    elif x == 204:
        return 204
    elif x == 205:
        return 205
    elif x == 206:
        return 206
    elif x == 207:
        return 207
    elif x == 208:
        return 208
    elif x == 209:
        return 209
    elif x == 210:
        return 210
    elif x == 211:
        return 211
    elif x == 212:
        return 212
    elif x == 213:
        return 213
    elif x == 214:
        return 214
    elif x == 215:
        return 215
    elif x == 216:
        return 216
    elif x == 217:
        return 217
    elif x == 218:
        return 218
    elif x == 219:
        return 219
    elif x == 220:
        return 220
    elif x == 221:
        return 221
    elif x == 222:
        return 222
    elif x == 223:
        return 223
    elif x == 224:
        return 224
    elif x == 225:
        return 225
    elif x == 226:
        return 226
    elif x == 227:
        return 227
    elif x == 228:
        return 228
    elif x == 229:
        return 229
    elif x == 230:
        return 230
    elif x == 231:
        return 231
    elif x == 232:
        return 232
    elif x == 233:
        return 233
    elif x == 234:
        return 234
    elif x == 235:
        return 235
    elif x == 236:
        return 236
    elif x == 237:
        return 237
    elif x == 238:
        return 238
    elif x == 239:
        return 239
    elif x == 240:
        return 240
    elif x == 241:
        return 241
    elif x == 242:
        return 242
    elif x == 243:
        return 243
    elif x == 244:
        return 244
    elif x == 245:
        return 245
    elif x == 246:
        return 246
    elif x == 247:
        return 247
    elif x == 248:
        return 248
    elif x == 249:
        return 249
    elif x == 250:
        return 250
    elif x == 251:
        return 251
    elif x == 252:
        return 252
    elif x == 253:
        return 253
    elif x == 254:
        return 254
    elif x == 255:
        return 255
    elif x == 256:
        return 256
    elif x == 257:
        return 257
    elif x == 258:
        return 258
    elif x == 259:
        return 259
    elif x == 260:
        return 260
    elif x == 261:
        return 261
    elif x == 262:
        return 262
    elif x == 263:
        return 263
    elif x == 264:
        return 264
    elif x == 265:
        return 265
    elif x == 266:
        return 266
    elif x == 267:
        return 267
    elif x == 268:
        return 268
    elif x == 269:
        return 269
    elif x == 270:
        return 270
    elif x == 271:
        return 271
    elif x == 272:
        return 272
    elif x == 273:
        return 273
    elif x == 274:
        return 274
    elif x == 275:
        return 275
    elif x == 276:
        return 276
    elif x == 277:
        return 277
    elif x == 278:
        return 278
    elif x == 279:
        return 279
    elif x == 280:
        return 280
    elif x == 281:
        return 281
    elif x == 282:
        return 282
    elif x == 283:
        return 283
    elif x == 284:
        return 284
    elif x == 285:
        return 285
    elif x == 286:
        return 286
    elif x == 287:
        return 287
    elif x == 288:
        return 288
    elif x == 289:
        return 289
    elif x == 290:
        return 290
    elif x == 291:
        return 291
    elif x == 292:
        return 292
    elif x == 293:
        return 293
    elif x == 294:
        return 294
    elif x == 295:
        return 295
    elif x == 296:
        return 296
    elif x == 297:
        return 297
    elif x == 298:
        return 298
    elif x == 299:
        return 299
@tilelang.jit
def k(a, p=4):
    a: T.Tensor((64,), 'int32')
    with T.Kernel(2) as b:
        z = f(299)
