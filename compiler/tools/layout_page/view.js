// How the page looks at a layout: the logical shape, what each cell says, a warp's request, and the
// words for one element. It says what draw.h and describe.h of compiler/layout say.
'use strict';

const KilnView = (() => {
  const {
    LayoutError, M, axisOf, abs, floorDiv, floorMod, isPowerOfTwo, minimum, checkedProduct,
    withoutSwizzles, swizzleOn, applySwizzle, unflatten, extentsOf, shapeSize, evaluate, apply,
    byteOf, bankOf, lineOf,
  } = KilnLayout;
  const LANES = 32n;
  const SHOWN_COPIES = 4;
  const WALKED_COPIES = 256n;
  const WIDE_ROW = 32n;
  const MAX_ADDRESS = 1n << 55n;  // of requests
  const SHARED_POINTS = 1n << 16n;
  const DESCRIBED_POINTS = 64n;
  const DESCRIBED_SHARERS = 16;

  // ---- views ----

  function nearSquare(extents) {
    const size = shapeSize(extents);
    let best = null;
    let rows = 1n;
    for (const extent of extents.slice(0, -1)) {
      rows *= extent;
      const columns = size / rows;
      const ratio = rows > columns ? Number(rows) / Number(columns)
                                   : Number(columns) / Number(rows);
      if (best === null || ratio < best.ratio ||
          (ratio === best.ratio && columns > best.shape[1])) {
        best = {ratio, shape: [rows, columns]};
      }
    }
    return best.shape;
  }

  function oneDigit(layout) {
    if (layout.swizzles.length > 0) {
      const columns = 1n << (layout.swizzles[0].perElement + layout.swizzles[0].atomLen);
      if (layout.size % columns === 0n) return [layout.size / columns, columns];
    }
    if (layout.size <= 2n * WIDE_ROW) return [1n, layout.size];
    let columns = WIDE_ROW;
    while (layout.size % columns !== 0n) --columns;
    return columns === 1n ? [1n, layout.size] : [layout.size / columns, columns];
  }

  function obviousShape(layout) {
    if (layout.shard.length === 2) return extentsOf(layout.shard);
    const extents = extentsOf(layout.shard).filter((extent) => extent > 1n);
    return extents.length < 2 ? oneDigit(layout) : nearSquare(extents);
  }

  // {shape, bits, rows, columns}; an empty shape is the obvious one.
  function viewOf(layout, shape, bits) {
    const used = shape.length > 0 ? shape.map(BigInt) : obviousShape(layout);
    if (checkedProduct(used) !== layout.size) {
      throw new LayoutError(
          `shape (${used.join(',')}) does not have the ${layout.size} elements of the layout`);
    }
    const columns = used.at(-1);
    return {shape: used, bits, rows: layout.size / columns, columns};
  }

  // ---- cells ----

  // What one element's cell says: owner ("thread:m"), address ("address/bank/line") or place.
  function cellsOf(layout, bits) {
    const plain = withoutSwizzles(layout);
    const ofKind = (...kinds) => plain.axes.filter((axis) => kinds.includes(axisOf(axis).kind));
    const threads = ofKind('thread');
    const memories = ofKind('memory');
    const others = ofKind('grid', 'cluster', 'other');
    const onlyM = memories.every((axis) => axis === M);
    const kind = threads.length > 0 ? 'owner' : onlyM ? 'address' : 'place';
    if (kind === 'address' && memories.length === 0) memories.push(M);
    const names = memories.map((axis) => axisOf(axis).name).join(',');
    const prefix = others.map((axis) => `${axisOf(axis).name}/`).join('');
    const legend = kind === 'address' ? 'address/bank/line' :
        kind === 'place'              ? names :
        names === ''                  ? 'thread' :
                                        `thread:${names}`;
    const keyName = kind === 'owner' ? 'thread' : kind === 'address' ? 'bank' :
                                                                       axisOf(memories[0]).name;

    // A number of each cell, as a sum over axes; shifts are what each copy adds to each of them.
    const fieldOf = (fieldAxes, weightOf) => {
      const replica = plain.replica.filter(
          (iter) => iter.extent > 1n && fieldAxes.includes(iter.axis));
      const copies = shapeSize(extentsOf(replica));
      const shifts = [];
      for (let q = 0n; q < minimum(copies, WALKED_COPIES); ++q) {
        const digits = unflatten(q, extentsOf(replica));
        const along = (axis) => replica.reduce(
            (sum, iter, k) => (iter.axis === axis ? sum + digits[k] * iter.stride : sum), 0n);
        shifts.push(fieldAxes.map(along));
      }
      const terms = fieldAxes.map(
          (axis) => ({axis, weight: weightOf(axis), swizzle: swizzleOn(layout, axis)}));
      return {terms, copies, shifts};
    };
    const placeField = (axis) => fieldOf([axis], () => 1n);
    const threadField = fieldOf(threads, (axis) => axisOf(axis).threads);
    const otherFields = others.map(placeField);
    const memoryFields = memories.map(placeField);

    const numberOf = (field, base, shift) => field.terms.reduce((sum, term, k) => {
      const value = (base.get(term.axis) ?? 0n) + shift[k];
      return sum + (term.swizzle ? applySwizzle(term.swizzle, value) : value) * term.weight;
    }, 0n);
    // The distinct numbers of a field over its copies: {shown, more: how many are not}.
    const read = (field, base) => {
      const distinct = [...new Set(field.shifts.map((shift) => numberOf(field, base, shift)))];
      const count = field.copies > WALKED_COPIES ? field.copies : BigInt(distinct.length);
      const shown = count <= SHOWN_COPIES ? distinct : distinct.slice(0, SHOWN_COPIES - 1);
      return {shown, more: count - BigInt(shown.length)};
    };
    const join = ({shown, more}, textOf = (n) => n) =>
        shown.map((n) => `${textOf(n)}`).join('|') + (more > 0n ? `|+${more}` : '');
    const baseOf = (flat) => {
      const values = evaluate(plain, flat, 0n);
      return new Map(plain.axes.map((axis, k) => [axis, values[k]]));
    };

    const label = (flat) => {
      const base = baseOf(flat);
      const text = otherFields.map((field) => `${join(read(field, base))}/`).join('');
      if (kind === 'address') {
        const m = read(memoryFields[0], base);
        return `${text}${join(m)}/${join(m, (n) => bankOf(n, bits))}/` +
            join(m, (n) => lineOf(n, bits));
      }
      const places = memoryFields.map((field) => join(read(field, base))).join(',');
      if (kind === 'place') return text + places;
      return text + join(read(threadField, base)) + (places === '' ? '' : `:${places}`);
    };
    const key = (flat) => {
      const base = baseOf(flat);
      const field = kind === 'owner' ? threadField : memoryFields[0];
      const first = numberOf(field, base, field.shifts[0]);
      return kind === 'address' ? BigInt(bankOf(first, bits)) : BigInt.asIntN(64, first);
    };
    return {kind, legend: prefix + legend, keyName, label, key};
  }

  // "#rrggbb": 32 hues, in three shades for the groups of 32 that follow.
  function colourOf(key) {
    const shades = [[171, 66], [129, 99], [205, 40]];
    const [low, reach] = shades[Number(floorMod(floorDiv(BigInt(key), 32n), 3n))];
    const hue = Math.floor(Number(floorMod(BigInt(key), 32n)) * 13 % 32 * 45 / 4);
    const ramp = hue % 120;
    const middle = low + Math.floor(reach * (ramp <= 60 ? ramp : 120 - ramp) / 60);
    const top = low + reach;
    const sectors = [
      [top, middle, low], [middle, top, low], [low, top, middle],
      [low, middle, top], [middle, low, top], [top, low, middle],
    ];
    const hex = sectors[Math.floor(hue / 60)].map((c) => c.toString(16).padStart(2, '0'));
    return `#${hex.join('')}`;
  }

  // ---- requests ----

  // One warp reading a column (lane l takes row l) or a row (lane l takes the l-th group), `vector`
  // elements a lane: {lanes: [flat of the first element], addresses: [byte], bytes}.
  function requestOf(layout, view, column, index, vector) {
    if (cellsOf(layout, view.bits).kind !== 'address') {
      throw new LayoutError('requests go to layouts on m without threads');
    }
    const bits = vector < 1 || vector > 32 ? 0 : vector * view.bits;
    if (bits % 8 !== 0 || !isPowerOfTwo(BigInt(bits)) || bits > 128) {
      throw new LayoutError(`${vector} elements of ${view.bits} bits are no access of 1, 2, 4, ` +
                            '8 or 16 bytes');
    }
    const {rows, columns} = view;
    const wide = BigInt(vector);
    const at = BigInt(index);
    const fits = column ? at >= 0n && at <= columns - wide
                        : at >= 0n && at < rows && wide <= columns;
    if (!fits) {
      throw new LayoutError(`no ${column ? 'column' : 'row'} ${index} of ${vector} elements in ` +
                            `${rows} x ${columns}`);
    }
    const count = minimum(LANES, column ? rows : columns / wide);
    const addressOf = (flat) => evaluate(layout, flat, 0n)[layout.axes.indexOf(M)] ?? 0n;
    const lanes = [];
    const addresses = [];
    for (let lane = 0n; lane < count; ++lane) {
      const first = column ? lane * columns + at : at * columns + lane * wide;
      const start = addressOf(first);
      if (abs(start) > MAX_ADDRESS) throw new LayoutError(`address ${start} is beyond 2^55`);
      const aligned = start - floorMod(start, wide);
      for (let k = 0n; k < wide; ++k) {
        const address = addressOf(first + k);
        if (address === aligned + k) continue;
        throw new LayoutError(
            `the ${vector} elements of a lane are not one aligned access: element ${first + k} ` +
            `at {m=${address}} against {m=${aligned + k}}`);
      }
      lanes.push(first);
      addresses.push(byteOf(start, view.bits));
    }
    return {lanes, addresses, bytes: bits / 8};
  }

  // ---- words ----

  const tuple = (values) => `(${values.join(',')})`;
  const line = (name, text) => `${name.padEnd(12)}${text}\n`;

  const pointText = (layout, point) =>
      `{${layout.axes.map((axis, k) => `${axisOf(axis).name}=${point[k]}`).join(', ')}}`;

  const addressIn = (layout, point) => point[layout.axes.indexOf(M)] ?? 0n;

  function banksOf(layout, flat, bits) {
    const banks = apply(layout, flat).map((point) => bankOf(addressIn(layout, point), bits));
    return [...new Set(banks)];
  }

  // The elements of the tile, but for `flat`, with a copy in `bank`.
  function sharersOf(layout, view, flat, bank) {
    const sharers = [];
    for (let x = 0n; x < layout.size; ++x) {
      if (x !== flat && banksOf(layout, x, view.bits).includes(bank)) sharers.push(x);
    }
    return sharers;
  }

  const canSearchSharers = (layout) => layout.size * layout.copies <= SHARED_POINTS;

  function describeElement(layout, view, flat) {
    const {kind} = cellsOf(layout, view.bits);
    let text = line('element', `${tuple(unflatten(flat, view.shape))}, flat ${flat}`);
    text += line('digits', tuple(unflatten(flat, extentsOf(layout.shard))));
    for (const point of apply(layout, flat, DESCRIBED_POINTS)) {
      let where = pointText(layout, point);
      if (kind === 'owner') {
        const weight = (value, k) => value * axisOf(layout.axes[k]).threads;
        where += ` thread ${point.map(weight).reduce((a, b) => a + b, 0n)}`;
      }
      if (kind === 'address') {
        const address = addressIn(layout, point);
        where += ` byte ${byteOf(address, view.bits)} bank ${bankOf(address, view.bits)} ` +
            `line ${lineOf(address, view.bits)}`;
      }
      text += line('point', where);
    }
    if (layout.copies > DESCRIBED_POINTS) {
      text += line('', `and ${layout.copies - DESCRIBED_POINTS} more`);
    }
    if (kind !== 'address') return text;
    if (!canSearchSharers(layout)) {
      return text + line('bank', `not searched for others: more than ${SHARED_POINTS} points`);
    }
    for (const bank of banksOf(layout, flat, view.bits)) {
      const sharers = sharersOf(layout, view, flat, bank);
      const names = sharers.slice(0, DESCRIBED_SHARERS)
                        .map((x) => tuple(unflatten(x, view.shape))).join(' ');
      const more = sharers.length - DESCRIBED_SHARERS;
      text += line(`bank ${bank}`,
                   `shared with ${sharers.length} element${sharers.length === 1 ? '' : 's'}` +
                       `${names === '' ? '' : `: ${names}`}${more > 0 ? ` and ${more} more` : ''}`);
    }
    return text;
  }

  // Two (element, copy) pairs on one point, or null; undefined for more than 2^16 points.
  function findCollision(layout) {
    if (!canSearchSharers(layout)) return undefined;
    const seen = new Map();
    for (let x = 0n; x < layout.size; ++x) {
      for (const point of apply(layout, x)) {
        const at = point.join(',');
        if (seen.has(at)) return {element: seen.get(at), other: x, at: pointText(layout, point)};
        seen.set(at, x);
      }
    }
    return null;
  }

  return {
    viewOf, cellsOf, colourOf, requestOf, describeElement, sharersOf, banksOf, canSearchSharers,
    findCollision,
  };
})();
