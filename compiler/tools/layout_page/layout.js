// Layouts on the page: reading and printing the text, evaluating, swizzles, banks and wavefronts.
// Nothing here knows the document. It says and computes what compiler/layout does; numbers are
// BigInt, because coordinates reach 2^60.
'use strict';

const KilnLayout = (() => {
  const MAX_REACH = 1n << 60n;
  const MAX_COPIES = 1n << 20n;
  const MAX_TEXT = 64 * 1024;
  const MAX_NESTING = 16;
  const MAX_ITERS = 64;
  const INT64_MAX = (1n << 63n) - 1n;
  const BANKS = 32n;
  const BANK_BITS = 32n;
  const LINE_BITS = 1024n;

  // The axes in their order: {name, kind, threads}. Set once by useAxes.
  let axes = [];
  const axisIndex = new Map();

  function useAxes(list) {
    axes = list.map((axis) => ({...axis, threads: BigInt(axis.threads)}));
    axisIndex.clear();
    axes.forEach((axis, index) => axisIndex.set(axis.name, index));
  }

  const M = 0;  // the axis of linear memory is the first

  class LayoutError extends Error {
    // column: where in the text, from 1, or 0 when the layout as a whole is wrong.
    constructor(message, column = 0) {
      super(message);
      this.column = column;
    }
  }

  // ---- integers ----

  const abs = (a) => (a < 0n ? -a : a);
  const floorDiv = (a, b) => a / b - (a % b < 0n ? 1n : 0n);
  const floorMod = (a, b) => a % b + (a % b < 0n ? b : 0n);
  const isPowerOfTwo = (a) => a > 0n && (a & (a - 1n)) === 0n;
  const minimum = (a, b) => (a < b ? a : b);

  // The product, or -1n when a factor is not positive or it passes 2^60.
  function checkedProduct(factors) {
    let product = 1n;
    for (const factor of factors) {
      if (factor <= 0n) return -1n;
      product *= factor;
      if (product > MAX_REACH) return -1n;
    }
    return product;
  }

  // ---- the layout ----

  function checkSwizzle(s) {
    if (s.perElement < 0n || s.swizzleLen < 0n || s.atomLen < s.swizzleLen ||
        s.perElement + s.swizzleLen + s.atomLen > 60n) {
      throw new LayoutError(
          `swizzle <${s.perElement},${s.swizzleLen},${s.atomLen}>: needs 0 <= per_element, ` +
          '0 <= swizzle_len <= atom_len and a sum of at most 60');
    }
    return s;
  }

  function makeSwizzle(perElement, swizzleLen, atomLen, inner = true, axis = M) {
    return checkSwizzle({
      perElement: BigInt(perElement),
      swizzleLen: BigInt(swizzleLen),
      atomLen: BigInt(atomLen),
      inner,
      axis,
    });
  }

  // The swizzle of a descriptor mode: 0 none, 1 32 bytes, 2 64 bytes, 3 128 bytes.
  function swizzleFor(elementBits, mode) {
    if (elementBits < 4 || elementBits > 64 || !isPowerOfTwo(BigInt(elementBits))) {
      throw new LayoutError(
          `no swizzle for elements of ${elementBits} bits; 4, 8, 16, 32 or 64 have one`);
    }
    return makeSwizzle(Math.log2(128 / elementBits), mode, 3);
  }

  function applySwizzle(s, address) {
    const mask = (1n << s.swizzleLen) - 1n;
    const far = s.perElement + s.atomLen;
    if (s.inner) return address ^ (((address >> far) & mask) << s.perElement);
    return address ^ (((address >> s.perElement) & mask) << far);
  }

  function checkExtents(iters) {
    for (const iter of iters) {
      if (iter.extent < 1n) {
        throw new LayoutError(`extent ${iter.extent} of an iter; extents are at least 1`);
      }
    }
    const product = checkedProduct(iters.map((iter) => iter.extent));
    if (product < 0n) throw new LayoutError("the extents' product passes 2^60");
    return product;
  }

  function sumOffsets(offset) {
    const sums = new Map();
    for (const {axis, value} of offset) sums.set(axis, (sums.get(axis) ?? 0n) + value);
    return [...sums].sort((a, b) => a[0] - b[0])
        .filter(([, value]) => value !== 0n)
        .map(([axis, value]) => ({axis, value}));
  }

  // How far an axis reaches from zero, or null when that passes 2^60.
  function reachOf(iters, axis, start) {
    let reach = abs(start);
    for (const iter of iters) {
      if (iter.axis !== axis) continue;
      reach += abs(iter.stride) * (iter.extent - 1n);
      if (reach > MAX_REACH || abs(iter.stride) > MAX_REACH) return null;
    }
    return reach > MAX_REACH ? null : reach;
  }

  // {shard, replica: [{extent, stride, axis}], offset: [{axis, value}], swizzles, size, copies,
  // axes}; throws LayoutError when an invariant fails.
  function fromIters(shard, replica = [], offset = [], swizzles = []) {
    const size = checkExtents(shard);
    const copies = checkExtents(replica);
    if (copies > MAX_COPIES) throw new LayoutError('more than 2^20 copies');
    if (shard.length > MAX_ITERS || replica.length > MAX_ITERS) {
      throw new LayoutError('more than 64 iters');
    }
    let shift = 0n;
    for (const {value} of offset) {
      shift += abs(value);
      if (shift > MAX_REACH) throw new LayoutError('the offsets pass 2^60');
    }
    const sums = sumOffsets(offset);
    const stages = swizzles.map(checkSwizzle)
                       .filter((s) => s.swizzleLen > 0n)
                       .sort((a, b) => a.axis - b.axis);
    const named = new Set([...shard, ...replica, ...sums, ...stages].map((part) => part.axis));
    const used = [...named].sort((a, b) => a - b);
    for (let k = 1; k < stages.length; ++k) {
      if (stages[k].axis === stages[k - 1].axis) {
        throw new LayoutError(`two swizzles on ${axes[stages[k].axis].name}`);
      }
    }
    for (const axis of used) {
      const start = sums.find((term) => term.axis === axis)?.value ?? 0n;
      const both = reachOf(shard, axis, start);
      if (both === null || reachOf(replica, axis, both) === null) {
        throw new LayoutError(`the coordinates on ${axes[axis].name} pass 2^60`);
      }
    }
    return {shard, replica, offset: sums, swizzles: stages, size, copies, axes: used};
  }

  const swizzleOn = (layout, axis) => layout.swizzles.find((s) => s.axis === axis);

  function composeLayout(swizzle, tile) {
    if (swizzleOn(tile, swizzle.axis)) {
      throw new LayoutError(
          `the tile has a swizzle on ${axes[swizzle.axis].name} already: ${print(tile)}`);
    }
    return fromIters(tile.shard, tile.replica, tile.offset, [...tile.swizzles, swizzle]);
  }

  function bareSwizzle(s) {
    const period = 1n << (s.perElement + s.swizzleLen + s.atomLen);
    return fromIters([{extent: period, stride: 1n, axis: s.axis}], [], [], [s]);
  }

  // The layout with `swizzle` on m instead of the one it has there; null takes that away.
  function withSwizzle(layout, swizzle) {
    const others = layout.swizzles.filter((s) => s.axis !== M);
    return fromIters(layout.shard, layout.replica, layout.offset,
                     swizzle === null ? others : [...others, swizzle]);
  }

  const withoutSwizzles = (layout) => fromIters(layout.shard, layout.replica, layout.offset);

  // ---- text ----

  // Columns count bytes of UTF-8, so the parser works on a string of bytes.
  const toBytes = (text) =>
      Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join('');
  const fromBytes = (bytes) =>
      new TextDecoder().decode(Uint8Array.from(bytes, (c) => c.charCodeAt(0)));

  const BLANK = /[ \t\n\v\f\r]/;
  const DIGIT = /[0-9]/;
  const WORD = /[0-9A-Za-z_]/;

  class Parser {
    constructor(bytes) {
      this.text = bytes;
      this.at = 0;
    }

    whole() {
      const layout = this.composed(0);
      this.blank();
      if (this.at !== this.text.length) throw this.wrong('the end of the layout');
      return layout;
    }

    error(what, at = this.at) {
      return new LayoutError(`layout text, column ${at + 1}: ${what}`, at + 1);
    }

    wrong(expected) {
      const rest = this.text.slice(this.at, this.at + 12);
      const found = this.at < this.text.length ? `, not '${fromBytes(rest)}'` : ' before the end';
      return this.error(`expected ${expected}${found}`);
    }

    blank() {
      while (this.at < this.text.length && BLANK.test(this.text[this.at])) ++this.at;
    }

    peek(token) {
      this.blank();
      return this.text.startsWith(token, this.at);
    }

    take(token) {
      if (!this.peek(token)) return false;
      this.at += token.length;
      return true;
    }

    need(token) {
      if (!this.take(token)) throw this.wrong(`'${token}'`);
    }

    integer() {
      this.blank();
      let end = this.at;
      if (this.text[end] === '-' || this.text[end] === '+') ++end;
      const digits = end;
      while (end < this.text.length && DIGIT.test(this.text[end])) ++end;
      if (end === digits) throw this.wrong('an integer');
      const magnitude = BigInt(this.text.slice(digits, end));
      const value = this.text[this.at] === '-' ? -magnitude : magnitude;
      if (value > INT64_MAX || value < -INT64_MAX - 1n) throw this.wrong('an integer');
      this.at = end;
      return value;
    }

    word() {
      this.blank();
      const start = this.at;
      while (this.at < this.text.length && WORD.test(this.text[this.at])) ++this.at;
      return this.text.slice(start, this.at);
    }

    optionalAxis() {
      if (!this.take('@')) return M;
      const start = this.at;
      const name = this.word();
      if (axisIndex.has(name)) return axisIndex.get(name);
      const known = axes.map((axis) => axis.name).join(', ');
      throw this.error(`unknown axis '${name}'; the axes are ${known}`, start);
    }

    step() {
      const value = this.integer();
      return {value, axis: this.optionalAxis()};
    }

    // One step, or a parenthesised list of them; a trailing comma is allowed.
    steps() {
      if (!this.take('(')) return [this.step()];
      const steps = [];
      while (!this.take(')')) {
        steps.push(this.step());
        if (!this.take(',') && !this.peek(')')) throw this.wrong("',' or ')'");
      }
      return steps;
    }

    // extents [: strides] ], after the opening bracket.
    iters() {
      const start = this.at;
      const extents = this.steps();
      while (this.take(',')) extents.push(this.step());
      if (extents.some((extent) => extent.axis !== M)) throw this.wrong('extents without axes');
      const iters = rowMajor(extents.map((extent) => extent.value));
      if (this.take(':')) {
        const strides = this.steps();
        if (strides.length !== iters.length) {
          throw this.error(`${iters.length} extents but ${strides.length} strides`, start);
        }
        strides.forEach((stride, k) => {
          iters[k].stride = stride.value;
          iters[k].axis = stride.axis;
        });
      }
      this.need(']');
      return iters;
    }

    tile() {
      let shard = null;
      const replica = [];
      const offset = [];
      for (let first = true;; first = false) {
        const minus = !first && this.take('-');
        if (!first && !minus && !this.take('+')) break;
        if (!minus && this.take('S[')) {
          if (shard !== null) throw this.wrong('one S[...] only');
          shard = this.iters();
        } else if (!minus && this.take('R[')) {
          replica.push(...this.iters());
        } else {
          const {value, axis} = this.step();
          if (value === -INT64_MAX - 1n) throw this.wrong('an offset above -2^63');
          offset.push({axis, value: minus ? -value : value});
        }
      }
      if (shard === null) throw this.wrong('S[...]');
      return fromIters(shard, replica, offset);
    }

    // M,B,S[,outer]>[@axis], after the opening angle.
    angle() {
      const numbers = [];
      for (let k = 0; k < 3; ++k) {
        if (k > 0) this.need(',');
        numbers.push(this.integer());
      }
      let inner = true;
      if (this.take(',')) {
        this.need('outer');
        inner = false;
      }
      this.need('>');
      return this.checked(numbers, inner, this.optionalAxis());
    }

    // per_element=M, swizzle_len=B, atom_len=S), or the numbers alone, after the parenthesis.
    named() {
      const numbers = [];
      for (const name of ['per_element', 'swizzle_len', 'atom_len']) {
        if (numbers.length > 0) this.need(',');
        if (this.take(name)) this.need('=');
        numbers.push(this.integer());
      }
      let inner = true;
      if (this.take(',')) {
        if (this.take('swizzle_inner')) this.need('=');
        const word = this.word();
        if (word !== 'True' && word !== 'False') throw this.wrong('True or False');
        inner = word === 'True';
      }
      this.need(')');
      return this.checked(numbers, inner, M);
    }

    checked(numbers, inner, axis) {
      if (numbers.some((n) => n < 0n || n > 60n)) throw this.wrong('swizzle numbers in [0, 60]');
      return makeSwizzle(...numbers, inner, axis);
    }

    composed(depth) {
      if (depth > MAX_NESTING) throw this.wrong('at most 16 nested constructors');
      if (this.take('TileLayout(')) {
        const tile = this.tile();
        this.need(')');
        return tile;
      }
      if (this.take('ComposeLayout(')) {
        let swizzle;
        if (this.take('SwizzleLayout(')) {
          swizzle = this.named();
        } else {
          this.need('<');
          swizzle = this.angle();
        }
        this.need(',');
        const tile = this.composed(depth + 1);
        this.need(')');
        return composeLayout(swizzle, tile);
      }
      if (this.take('SwizzleLayout(')) return bareSwizzle(this.named());
      if (!this.take('<')) return this.tile();
      const swizzle = this.angle();
      if (!this.take('o ') && !this.take(toBytes('\u2218'))) return bareSwizzle(swizzle);
      return composeLayout(swizzle, this.composed(depth + 1));
    }
  }

  function rowMajor(extents) {
    const iters = [];
    let stride = 1n;
    for (const extent of [...extents].reverse()) {
      iters.unshift({extent, stride, axis: M});
      stride *= extent;
    }
    return iters;
  }

  function parse(text) {
    const bytes = toBytes(text);
    if (bytes.length > MAX_TEXT) throw new LayoutError('a layout text of more than 64 KiB');
    return new Parser(bytes).whole();
  }

  const valueText = (value, axis) => (axis === M ? `${value}` : `${value}@${axes[axis].name}`);

  function itersText(letter, iters) {
    const extents = iters.map((iter) => iter.extent).join(',');
    const strides = iters.map((iter) => valueText(iter.stride, iter.axis)).join(',');
    return iters.length === 1 ? `${letter}[${extents}:${strides}]`
                              : `${letter}[(${extents}):(${strides})]`;
  }

  function swizzleText(s) {
    const form = s.inner ? '' : ',outer';
    const axis = s.axis === M ? '' : `@${axes[s.axis].name}`;
    return `<${s.perElement},${s.swizzleLen},${s.atomLen}${form}>${axis}`;
  }

  function print(layout) {
    let text = layout.swizzles.map((s) => `${swizzleText(s)} o `).join('');
    text += itersText('S', layout.shard);
    if (layout.replica.length > 0) text += ` + ${itersText('R', layout.replica)}`;
    for (const {axis, value} of layout.offset) {
      text += `${value < 0n ? ' - ' : ' + '}${valueText(abs(value), axis)}`;
    }
    return text;
  }

  // ---- canonical form ----

  function merge(iters) {
    const merged = [];
    for (const {extent, stride, axis} of iters) {
      if (extent === 1n) continue;
      const iter = {extent, stride, axis: stride === 0n ? M : axis};
      const last = merged.at(-1);
      if (last && last.axis === iter.axis && last.stride === iter.extent * iter.stride) {
        last.extent *= iter.extent;
        last.stride = iter.stride;
      } else {
        merged.push(iter);
      }
    }
    return merged;
  }

  function replicaOrder(a, b) {
    if (a.axis !== b.axis) return a.axis - b.axis;
    const fall = (x, y) => (x > y ? -1 : x < y ? 1 : 0);
    return fall(abs(a.stride), abs(b.stride)) || fall(a.stride, b.stride) ||
        fall(a.extent, b.extent);
  }

  function canonical(layout) {
    const replica = layout.replica.map((iter) => (iter.stride === 0n ? {...iter, axis: M} : iter))
                        .sort(replicaOrder);
    const shard = merge(layout.shard);
    if (shard.length === 0) shard.push({extent: 1n, stride: 1n, axis: M});
    return fromIters(shard, merge(replica), layout.offset, layout.swizzles);
  }

  // ---- evaluation ----

  // The row-major digits of a flat index.
  function unflatten(flat, extents) {
    const digits = [];
    for (const extent of [...extents].reverse()) {
      digits.unshift(flat % extent);
      flat /= extent;
    }
    return digits;
  }

  const extentsOf = (iters) => iters.map((iter) => iter.extent);
  const shapeSize = (shape) => shape.reduce((product, extent) => product * extent, 1n);

  // The value on each of layout.axes, in order, of one copy of an element.
  function evaluate(layout, flat, copy) {
    const values = new Map(layout.axes.map((axis) => [axis, 0n]));
    const add = (axis, value) => values.set(axis, values.get(axis) + value);
    for (const {axis, value} of layout.offset) add(axis, value);
    const walk = (iters, index) => unflatten(index, extentsOf(iters)).forEach((digit, k) => {
      add(iters[k].axis, digit * iters[k].stride);
    });
    walk(layout.shard, flat);
    walk(layout.replica, copy);
    for (const s of layout.swizzles) values.set(s.axis, applySwizzle(s, values.get(s.axis)));
    return [...values.values()];
  }

  // Every point of an element, copy by copy; at most `limit` of them.
  function apply(layout, flat, limit = layout.copies) {
    const points = [];
    const count = minimum(layout.copies, limit);
    for (let copy = 0n; copy < count; ++copy) points.push(evaluate(layout, flat, copy));
    return points;
  }

  // The smallest and largest value of an axis before its swizzle.
  function rangeOf(layout, axis) {
    let low = layout.offset.find((term) => term.axis === axis)?.value ?? 0n;
    let high = low;
    for (const iter of [...layout.shard, ...layout.replica]) {
      if (iter.axis !== axis) continue;
      const reach = iter.stride * (iter.extent - 1n);
      if (reach < 0n) low += reach;
      else high += reach;
    }
    return {low, high};
  }

  // ---- banks and wavefronts ----

  const byteOf = (address, bits) => floorDiv(address * BigInt(bits), 8n);
  const bankOf = (address, bits) =>
      Number(floorMod(floorDiv(address * BigInt(bits), BANK_BITS), BANKS));
  const lineOf = (address, bits) => floorDiv(address * BigInt(bits), LINE_BITS);

  // The wavefronts of one request: phases of 32, 16 or 8 lanes for accesses of up to 4, 8 and 16
  // bytes; in a phase, each bank serves one word a wavefront. [{phase, lanes, words}], lanes in the
  // first wavefront that has served all their words.
  function wavefronts(byteAddresses, bytesPerLane) {
    const perPhase = bytesPerLane <= 4 ? 32 : bytesPerLane === 8 ? 16 : 8;
    const fronts = [];
    for (let start = 0; start < byteAddresses.length; start += perPhase) {
      const perBank = new Map();  // bank -> words in the order of service
      const phase = [];
      const frontOf = (number) => {
        while (phase.length <= number) phase.push({phase: start / perPhase, lanes: [], words: []});
        return phase[number];
      };
      byteAddresses.slice(start, start + perPhase).forEach((address, k) => {
        let last = 0;
        const end = floorDiv(address + BigInt(bytesPerLane) - 1n, 4n);
        for (let word = floorDiv(address, 4n); word <= end; ++word) {
          const bank = Number(floorMod(word, BANKS));
          const words = perBank.get(bank) ?? [];
          perBank.set(bank, words);
          if (!words.includes(word)) {
            words.push(word);
            frontOf(words.length - 1).words.push({bank, word});
          }
          last = Math.max(last, words.indexOf(word));
        }
        frontOf(last).lanes.push(start + k);
      });
      fronts.push(...phase);
    }
    return fronts;
  }

  return {
    LayoutError, M, useAxes, axisOf: (axis) => axes[axis], abs, floorDiv, floorMod, isPowerOfTwo,
    minimum, checkedProduct, parse, print, canonical, fromIters, composeLayout, withSwizzle,
    withoutSwizzles, swizzleOn, makeSwizzle, swizzleFor, applySwizzle, unflatten, extentsOf,
    shapeSize, evaluate, apply, rangeOf, byteOf, bankOf, lineOf, wavefronts,
  };
})();
