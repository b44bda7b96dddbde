// The document around layout.js and view.js: reads the controls, draws the tile, answers clicks.
// Everything is drawn anew in the event that changes it; nothing runs later.
'use strict';

const KilnPage = (() => {
  const MAX_ROWS = 64;
  const MAX_COLUMNS = 64;
  const EDITED = '';  // the preset's value when the text is not a preset's
  const SWIZZLE_MODES = {'32B': 1, '64B': 2, '128B': 3};

  const data = JSON.parse(document.getElementById('kiln-data').textContent);
  const at = (id) => document.getElementById(id);

  // What is drawn: {layout, view, cells}, or null when the controls make no layout.
  let drawn = null;
  let chosen = null;  // flat index of the element that was clicked

  function make(tag, text = '', attributes = {}) {
    const node = document.createElement(tag);
    node.textContent = text;
    for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
    return node;
  }

  // ---- controls ----

  function fillControls() {
    at('preset').append(make('option', 'edited', {value: EDITED}));
    for (const {name} of data.presets) at('preset').append(make('option', name, {value: name}));
    for (const {name} of data.dtypes) at('dtype').append(make('option', name, {value: name}));
  }

  function showStart({layout, shape, bits}) {
    const preset = data.presets.find((p) => p.layout === layout && p.bits === bits);
    at('preset').value = preset ? preset.name : EDITED;
    at('layout').value = layout;
    at('shape').value = shape.join(',');
    chooseWidth(bits);
  }

  function chooseWidth(bits) {
    if (elementBits() === bits) return;
    const dtype = data.dtypes.find((d) => d.bits === bits);
    if (dtype) at('dtype').value = dtype.name;
  }

  const elementBits = () => data.dtypes.find((d) => d.name === at('dtype').value).bits;

  function integersOf(name, text, count = null) {
    if (text.trim() === '') return [];
    const parts = text.split(/[,x]/).map((part) => part.trim());
    if (parts.some((part) => !/^\d{1,18}$/.test(part)) ||
        (count !== null && parts.length !== count)) {
      throw new KilnLayout.LayoutError(
          `${name} '${text}': ${count ?? 'some'} whole numbers with commas between`);
    }
    return parts.map(BigInt);
  }

  function swizzled(layout, bits) {
    const choice = at('swizzle').value;
    if (choice === 'written') return layout;
    if (choice === 'none') return KilnLayout.withSwizzle(layout, null);
    if (choice === 'custom') {
      const numbers = integersOf('swizzle', at('custom').value, 3);
      return KilnLayout.withSwizzle(layout, KilnLayout.makeSwizzle(...numbers));
    }
    const swizzle = KilnLayout.swizzleFor(bits, SWIZZLE_MODES[choice]);
    return KilnLayout.withSwizzle(layout, swizzle);
  }

  // The view that is asked for; the obvious one, and a note, when the shape does not fit.
  function viewOf(layout, bits) {
    const shape = integersOf('shape', at('shape').value);
    at('note').hidden = true;
    try {
      return KilnView.viewOf(layout, shape, bits);
    } catch (error) {
      if (!(error instanceof KilnLayout.LayoutError)) throw error;
      at('note').textContent = `${error.message}; drawn in the obvious shape`;
      at('note').hidden = false;
      return KilnView.viewOf(layout, [], bits);
    }
  }

  // ---- drawing ----

  // The message, and for a mistake in the text the text with the place marked.
  function showError(error) {
    let message = error.message;
    if (error.column > 0) {
      const bytes = new TextEncoder().encode(at('layout').value).slice(0, error.column - 1);
      const before = new TextDecoder().decode(bytes);
      message += `\n\n${at('layout').value}\n${' '.repeat([...before].length)}^`;
    }
    at('error').textContent = message;
  }

  function update() {
    at('custom-label').hidden = at('swizzle').value !== 'custom';
    try {
      const bits = elementBits();
      const layout = swizzled(KilnLayout.parse(at('layout').value), bits);
      const view = viewOf(layout, bits);
      drawn = {layout, view, cells: KilnView.cellsOf(layout, bits)};
    } catch (error) {
      if (!(error instanceof KilnLayout.LayoutError)) throw error;
      drawn = null;
      showError(error);
    }
    at('error').hidden = drawn !== null;
    at('result').hidden = drawn === null;
    if (drawn === null) return;
    if (chosen !== null && chosen >= drawn.layout.size) chosen = null;
    drawSummary();
    drawTile();
    at('request-box').hidden = drawn.cells.kind !== 'address';
    drawRequest();
    drawElement();
  }

  function injectiveText(layout) {
    const collision = KilnView.findCollision(layout);
    if (collision === undefined) return 'not searched: more than 2^16 points';
    if (collision === null) return 'yes';
    return `no, element ${collision.element} and element ${collision.other} share ${collision.at}`;
  }

  function drawSummary() {
    const {layout} = drawn;
    const rows = [
      ['layout', KilnLayout.print(layout)],
      ['canonical', KilnLayout.print(KilnLayout.canonical(layout))],
      ['elements', `${layout.size}`],
      ['copies', `${layout.copies}`],
      ['injective', injectiveText(layout)],
    ];
    for (const axis of layout.axes) {
      const {low, high} = KilnLayout.rangeOf(layout, axis);
      rows.push([KilnLayout.axisOf(axis).name, `${low} to ${high}`]);
    }
    at('summary').replaceChildren(
        ...rows.flatMap(([name, value]) => [make('dt', name), make('dd', value)]));
  }

  function drawTile() {
    const {view, cells} = drawn;
    const rows = Number(view.rows < MAX_ROWS ? view.rows : BigInt(MAX_ROWS));
    const columns = Number(view.columns < MAX_COLUMNS ? view.columns : BigInt(MAX_COLUMNS));
    at('legend').textContent = `${view.rows} x ${view.columns}, each cell ${cells.legend}, ` +
        `coloured by ${cells.keyName}`;
    const head = make('tr');
    head.append(make('th'));
    for (let j = 0; j < columns; ++j) head.append(make('th', `${j}`));
    const body = [head];
    for (let i = 0; i < rows; ++i) {
      const row = make('tr');
      row.append(make('th', KilnLayout.unflatten(BigInt(i), view.shape.slice(0, -1)).join(',')));
      for (let j = 0; j < columns; ++j) {
        const flat = BigInt(i) * view.columns + BigInt(j);
        const cell = make('td', cells.label(flat), {'data-flat': `${flat}`, tabindex: '0'});
        cell.style.background = KilnView.colourOf(cells.key(flat));
        row.append(cell);
      }
      body.push(row);
    }
    at('tile').replaceChildren(...body);
    const parts = [];
    if (view.rows > rows) parts.push(`${view.rows - BigInt(rows)} more rows`);
    if (view.columns > columns) parts.push(`${view.columns - BigInt(columns)} more columns`);
    at('left-out').textContent = `not shown: ${parts.join(' and ')}`;
    at('left-out').hidden = parts.length === 0;
  }

  const cellOf = (flat) => at('tile').querySelector(`td[data-flat="${flat}"]`);

  function mark(name, flats) {
    for (const cell of at('tile').querySelectorAll(`td.${name}`)) cell.classList.remove(name);
    for (const flat of flats) cellOf(flat)?.classList.add(name);
  }

  // The elements that one looks for beside the chosen one: in its banks, or of its thread.
  function matesOf(flat) {
    const {layout, view, cells} = drawn;
    if (cells.kind === 'address') {
      if (!KilnView.canSearchSharers(layout)) return [];
      return KilnView.banksOf(layout, flat, view.bits)
          .flatMap((bank) => KilnView.sharersOf(layout, view, flat, bank));
    }
    const key = cells.key(flat);
    return [...at('tile').querySelectorAll('td')].map((cell) => BigInt(cell.dataset.flat))
        .filter((other) => other !== flat && cells.key(other) === key);
  }

  function drawElement() {
    if (chosen === null) {
      at('element').textContent = 'Click an element of the tile.';
      mark('chosen', []);
      mark('mate', []);
      return;
    }
    at('element').textContent = KilnView.describeElement(drawn.layout, drawn.view, chosen);
    mark('chosen', [chosen]);
    mark('mate', matesOf(chosen));
  }

  function frontRow(front, number) {
    const row = make('tr');
    row.append(make('th', `${number + 1}`), make('th', `${front.phase + 1}`),
               make('th', front.lanes.join(' ')));
    const byBank = new Map(front.words.map(({bank, word}) => [bank, word]));
    for (let bank = 0; bank < 32; ++bank) {
      const cell = make('td', byBank.has(bank) ? `${byBank.get(bank)}` : '');
      if (byBank.has(bank)) cell.style.background = KilnView.colourOf(bank);
      row.append(cell);
    }
    return row;
  }

  function drawRequest() {
    mark('lane', []);
    at('fronts').replaceChildren();
    if (drawn.cells.kind !== 'address') return;
    const column = at('direction').value === 'column';
    const index = /^\d{1,15}$/.test(at('index').value) ? at('index').value : '0';
    let request;
    try {
      request = KilnView.requestOf(drawn.layout, drawn.view, column, index,
                                     Number(at('vector').value));
    } catch (error) {
      if (!(error instanceof KilnLayout.LayoutError)) throw error;
      at('request').textContent = error.message;
      return;
    }
    const fronts = KilnLayout.wavefronts(request.addresses, request.bytes);
    const plural = (n, word) => `${n} ${word}${n === 1 ? '' : 's'}`;
    at('request').textContent =
        `${column ? 'column' : 'row'} ${index} read by ${plural(request.lanes.length, 'lane')}: ` +
        plural(fronts.length, 'wavefront');
    const head = make('tr');
    for (const name of ['wavefront', 'phase', 'lanes']) head.append(make('th', name));
    for (let bank = 0; bank < 32; ++bank) head.append(make('th', `${bank}`));
    at('fronts').append(head, ...fronts.map(frontRow));
    mark('lane', request.lanes);
  }

  // ---- events ----

  function choose(flat) {
    chosen = flat;
    const columns = drawn.view.columns;
    const column = at('direction').value === 'column';
    at('index').value = `${column ? flat % columns : flat / columns}`;
    drawRequest();
    drawElement();
  }

  function choosePreset() {
    const preset = data.presets.find((p) => p.name === at('preset').value);
    if (!preset) return;
    chosen = null;
    at('swizzle').value = 'written';
    showStart(preset);
    at('preset').value = preset.name;
    update();
  }

  function listen() {
    at('preset').addEventListener('change', choosePreset);
    at('layout').addEventListener('input', () => {
      at('preset').value = EDITED;
      update();
    });
    for (const id of ['dtype', 'swizzle', 'custom', 'shape']) {
      at(id).addEventListener('input', update);
    }
    for (const id of ['direction', 'index', 'vector']) {
      at(id).addEventListener('input', drawRequest);
    }
    const pick = (event) => {
      const cell = event.target.closest('td[data-flat]');
      if (cell) choose(BigInt(cell.dataset.flat));
    };
    at('tile').addEventListener('click', pick);
    at('tile').addEventListener('keydown', (event) => {
      if (event.key === 'Enter') pick(event);
    });
  }

  KilnLayout.useAxes(data.axes);
  fillControls();
  showStart(data.start);
  listen();
  update();
  return {update, choose};
})();
