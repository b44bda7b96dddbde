// Runs inside the page, after its own scripts: compares what the page computes and shows with the
// cases that layout_page_test.cc wrote, and leaves the result as the document's text.
'use strict';

(() => {
  const cases = JSON.parse(document.getElementById('cases').textContent);
  const result = {evaluated: 0, elements: 0, requests: 0, texts: 0, clicks: 0, presets: 0,
                  broken: 0, failures: []};
  const L = KilnLayout;
  const V = KilnView;
  const at = (id) => document.getElementById(id);

  function same(what, actual, expected) {
    if (actual === expected || result.failures.length >= 20) return;
    result.failures.push({what, actual: String(actual), expected: String(expected)});
  }

  function attempt(what, work) {
    try {
      work();
    } catch (error) {
      same(what, `${error}\n${error.stack}`, 'no exception');
    }
  }

  function elementText(layout, flat, bits) {
    const points = L.apply(layout, flat);
    const m = layout.axes.indexOf(0);
    const addresses = points.map((point) => (m < 0 ? 0n : point[m]));
    return `${points.map((point) => point.join(',')).join(';')}|` +
        `${addresses.map((a) => L.bankOf(a, bits)).join(',')}|` +
        `${addresses.map((a) => L.lineOf(a, bits)).join(',')}`;
  }

  function checkRequest(what, layout, view, r) {
    ++result.requests;
    try {
      const request = V.requestOf(layout, view, r.column, r.index, r.vector);
      const fronts = L.wavefronts(request.addresses, request.bytes);
      same(`${what} addresses`, request.addresses.join(','), r.addresses);
      same(`${what} wavefronts`, fronts.length, r.waves);
      const lanes = fronts.flatMap((front) => front.lanes).sort((a, b) => a - b);
      same(`${what} lanes`, lanes.join(','), request.lanes.map((_, k) => k).join(','));
      for (const front of fronts) {
        const banks = front.words.map(({bank}) => bank);
        same(`${what} one word a bank`, new Set(banks).size, banks.length);
      }
    } catch (error) {
      if (!(error instanceof L.LayoutError)) throw error;
      same(`${what} refusal`, error.message, r.error);
    }
  }

  function checkLayout(c) {
    const layout = L.parse(c.text);
    same(`${c.text} printed`, L.print(layout), c.print);
    same(`${c.text} canonical`, L.print(L.canonical(layout)), c.canonical);
    const view = V.viewOf(layout, c.shape, c.bits);
    same(`${c.text} shape`, view.shape.join(','), c.view);
    const cells = V.cellsOf(layout, c.bits);
    same(`${c.text} legend`, cells.legend, c.legend);
    same(`${c.text} size`, layout.size, BigInt(c.elements.length));
    c.elements.forEach((expected, x) => {
      const what = `${c.text} of ${c.bits} bits, element ${x}`;
      const flat = BigInt(x);
      same(what, elementText(layout, flat, c.bits), expected);
      same(`${what}, label`, `${cells.label(flat)} ${V.colourOf(cells.key(flat))}`, c.labels[x]);
      ++result.elements;
    });
    for (const r of c.requests) checkRequest(`${c.text} ${JSON.stringify(r)}`, layout, view, r);
    same(`${c.text} description of ${c.described}`,
         V.describeElement(layout, view, BigInt(c.described)), c.description);
    ++result.evaluated;
  }

  function checkText(c) {
    let ok = true;
    let says;
    try {
      says = L.print(L.parse(c.text));
    } catch (error) {
      if (!(error instanceof L.LayoutError)) throw error;
      ok = false;
      says = error.message;
    }
    same(`'${c.text}'`, `${ok} ${says}`, `${c.ok} ${c.says}`);
    ++result.texts;
  }

  function set(id, value) {
    at(id).value = value;
    same(`#${id} takes ${value}`, at(id).value, value);
    at(id).dispatchEvent(new Event('input', {bubbles: true}));
    at(id).dispatchEvent(new Event('change', {bubbles: true}));
  }

  const visible = (id) => getComputedStyle(at(id)).display !== 'none';
  const shown = (name) => {
    const names = [...at('summary').querySelectorAll('dt')];
    return names.find((dt) => dt.textContent === name)?.nextSibling.textContent;
  };
  const cell = (flat) => at('tile').querySelector(`td[data-flat="${flat}"]`);

  function checkClick(c) {
    const what = `click on ${c.flat} of ${c.layout}, ${c.dtype}`;
    set('shape', '');
    set('layout', c.text);
    set('dtype', c.dtype);
    set('swizzle', c.swizzle);
    set('direction', 'column');
    same(`${what}: error visible`, visible('error'), false);
    same(`${what}: M,B,S visible`, visible('custom-label'), false);
    same(`${what}: layout`, shown('layout'), c.layout);
    same(`${what}: label`, cell(c.flat).textContent, c.label);
    cell(c.flat).click();
    same(what, at('element').textContent, c.description);
    same(`${what}: marked`, cell(c.flat).classList.contains('chosen'), true);
    if (c.request !== undefined) {
      same(`${what}: request visible`, visible('request-box'), true);
      same(`${what}: request`, at('request').textContent, c.request);
      same(`${what}: fronts`, at('fronts').querySelectorAll('tr').length - 1, c.waves);
    }
    ++result.clicks;
  }

  function checkPreset(c) {
    set('preset', c.name);
    same(`${c.name}: error visible`, visible('error'), false);
    same(`${c.name}: note visible`, visible('note'), false);
    same(`${c.name}: layout`, shown('layout'), c.layout);
    for (const [flat, label] of c.labels) {
      same(`${c.name}: label of ${flat}`, cell(flat)?.textContent, label);
    }
    ++result.presets;
  }

  function checkBroken({text, message, column}) {
    set('swizzle', 'written');
    set('layout', text);
    same('error visible', visible('error'), true);
    same('result visible', visible('result'), false);
    same('error', at('error').textContent, `${message}\n\n${text}\n${' '.repeat(column - 1)}^`);
    set('layout', 'S[(8,64):(64,1)]');
    same('error visible later', visible('error'), false);
    set('swizzle', 'custom');
    set('custom', '3,3,3');
    same('M,B,S visible', visible('custom-label'), true);
    same('custom swizzle', shown('layout'), '<3,3,3> o S[(8,64):(64,1)]');
    set('shape', '8,65');
    same('note visible', visible('note'), true);
    ++result.broken;
  }

  for (const c of cases.evaluate ?? []) attempt(c.text, () => checkLayout(c));
  for (const c of cases.texts ?? []) attempt(c.text, () => checkText(c));
  for (const c of cases.clicks ?? []) attempt(c.text, () => checkClick(c));
  for (const c of cases.presets ?? []) attempt(c.name, () => checkPreset(c));
  if (cases.broken) attempt('broken text', () => checkBroken(cases.broken));
  document.head.replaceChildren();
  document.body.textContent = `RESULT${JSON.stringify(result)}END`;
})();
