// A client of dpspec plans in one file, for browsers and Node: the channels one-bit-mean (means and counts of a column) and
// subset-selection (histograms). It writes the same bytes as dpspec.client (dpspec/client/frame.py says what they are).
//
// Exactness. Both channels are nothing but coins. A coin of probability t/2^64 compares one uniform 64-bit integer with the integer t, in
// BigInt, so no probability is rounded after the client file was read; t is in the file (`coins`) and is what the limit is checked against.
// The one coin that depends on the record (the sign of a number of [-1, 1]) is followed by randomised response on its outcome, so its
// rounding costs no privacy. Integers come from crypto.getRandomValues; keys of the random order are 62 bits, and equal keys are drawn again.
//
//   const device = load(await (await fetch("/client")).json(), { epsilon: 1 });
//   const bytes = report(device, { age: 31, hours: 40, tenure: 2 });

const MAGIC = [0x44, 0x50, 0x53, 0x52, 1, 0];
const HEADER = 56;
const TWO64 = 1n << 64n;
const SLACK = 1e-9;

export class ClientError extends Error {}

function refuse(message) {
  throw new ClientError(message);
}

function only(form, names, what) {
  if (form === null || typeof form !== "object" || Array.isArray(form)) refuse(`${what} is no object`);
  const given = Object.keys(form).sort().join();
  if (given !== [...names].sort().join()) refuse(`${what} has the fields ${[...names].sort().join(", ")}, not ${given}`);
  return form;
}

function finite(value, what) {
  if (typeof value !== "number" || !Number.isFinite(value)) refuse(`${what} is a finite number`);
  return value;
}

function whole(value, low, high, what) {
  if (!Number.isInteger(value) || value < low || value > high) refuse(`${what} is a whole number from ${low} to ${high}`);
  return value;
}

// ------------------------------------------------------------------------------------------------------------------ client file

/** The device of a client file. `epsilon`: the most that one report may spend, which the caller decides and no file. */
export function load(form, { epsilon, plan = null } = {}) {
  if (!(epsilon > 0 && Number.isFinite(epsilon))) refuse("the limit is a finite epsilon > 0");
  only(form, ["format", "version", "plan", "rounds", "record", "enforce", "protects", "draws"], "a client file");
  if (form.format !== "dpspec-client" || form.version !== 1) refuse("this client reads dpspec-client 1");
  if (typeof form.plan !== "string" || !/^[0-9a-f]{64}$/.test(form.plan)) refuse("the plan is named by its SHA-256");
  if (plan !== null && plan.toLowerCase() !== form.plan) refuse(`the client file is of the plan ${form.plan}, not of ${plan}`);
  if (form.rounds !== 1) refuse("this client answers plans of one round");
  if (form.protects !== "records") refuse("this client answers plans that protect whole records");
  const { d, y, columns, missing } = only(form.record, ["d", "y", "columns", "missing"], "record");
  whole(d, 1, 1e6, "d");
  if (y !== false || missing !== false) refuse("this client has records of numbers x alone, all there");
  if (!Array.isArray(columns) || !columns.every((c) => typeof c === "string") || ![0, d].includes(columns.length)) refuse("columns are names, one a coordinate");
  only(form.enforce, ["x", "y"], "enforce");
  if (!Array.isArray(form.enforce.x) || !Array.isArray(form.enforce.y) || form.enforce.y.length) refuse("rules are lists, those of y empty");
  const rules = form.enforce.x.map(ruleOf);
  if (!Array.isArray(form.draws) || form.draws.length === 0) refuse("draws are a list of at least one");
  const draws = form.draws.map((draw) => drawOf(draw, d));
  const spent = draws.reduce((sum, draw) => sum + draw.epsilon, 0);
  if (!(spent <= epsilon * (1 + SLACK))) refuse(`one report spends epsilon = ${spent}, above the limit ${epsilon}; nothing is reported`);
  const bits = draws.reduce((sum, draw) => sum + draw.bits, 0);
  return { plan: form.plan, d, columns, rules, draws, spent, length: HEADER + Math.ceil(bits / 8) };
}

function ruleOf(form) {
  if (form === null || typeof form !== "object" || form.kind !== "clip") refuse(`this client does not enforce ${form && form.kind}`);
  only(form, ["kind", "low", "high", "reject"], "the rule clip");
  const low = finite(form.low, "low"), high = finite(form.high, "high");
  if (typeof form.reject !== "boolean" || low > high) refuse("the rule clip has an interval, and reject is true or false");
  return (x) => {
    if (form.reject) return x.some((v) => v < low || v > high) ? x.map(() => 0) : x;
    return x.map((v) => Math.min(Math.max(v, low), high));
  };
}

function coin(form, name) {
  if (typeof form[name] !== "string" || !/^[0-9]{1,20}$/.test(form[name])) refuse(`the coin ${name} is a whole number in decimal digits`);
  const t = BigInt(form[name]);
  if (t <= 0n || t >= TWO64) refuse(`the coin ${name} lies between 0 and 2^64`);
  return t;
}

function ratio(t) {
  return Number(t) / Number(TWO64 - t);
}

function drawOf(form, d) {
  only(form, ["name", "count", "feature", "channel", "level", "noise", "coins"], "a draw");
  if (form.count !== 1) refuse("this client sends one report a draw");
  const kind = form.channel && form.channel.kind;
  if (kind === "one-bit-mean") {
    only(form.channel, ["kind", "family", "radius"], "the channel one-bit-mean");
    if (form.channel.radius !== 1) refuse("this client's numbers lie in [-1, 1]");
    const keep = coin(only(form.coins, ["keep"], "coins"), "keep");
    if (keep < TWO64 / 2n) refuse("the coin keep is at least one half");
    const value = featureOf(form.feature, d, ["centred-column", "satisfied"]);
    return { value, bits: 1, epsilon: Math.log(ratio(keep)), encode: (v, words) => oneBit(v, keep, words) };
  }
  if (kind === "subset-selection") {
    only(form.channel, ["kind", "family", "k"], "the channel subset-selection");
    const k = whole(form.channel.k, 2, 1e6, "k");
    only(form.coins, ["truth", "width"], "coins");
    const truth = coin(form.coins, "truth");
    const width = whole(Number(form.coins.width), 1, k - 1, "width");
    const value = featureOf(form.feature, d, ["cell"]);
    if (value.categories !== k) refuse("the cells are not the channel's");
    const epsilon = Math.abs(Math.log((ratio(truth) * (k - width)) / width));
    return { value, bits: k, epsilon, encode: (v, words) => subset(v, k, width, truth, words) };
  }
  return refuse(`this client has no channel ${kind}`);
}

// --------------------------------------------------------------------------------------------------------------------- features

function columnOf(form, d) {
  only(form, ["in_y", "first", "width", "low", "high", "offset", "factor", "values"], "a column");
  if (form.in_y !== false) refuse("this client has no y");
  const first = whole(form.first, 0, d - 1, "first"), width = whole(form.width, 1, d - first, "width");
  const low = finite(form.low, "low"), high = finite(form.high, "high");
  if (!Array.isArray(form.values)) refuse("values are a list");
  const values = form.values.map((v) => finite(v, "a value"));
  return {
    low,
    high,
    entry: (x) => Math.min(Math.max(x[first], low), high),
    coded: width > 1 || values.length > 0,
    code(x) {
      if (values.length) return values.lastIndexOf(x[first]);
      const part = x.slice(first, first + width);
      const best = part.indexOf(Math.max(...part));
      return part[best] > 0 ? best : -1;
    },
  };
}

function featureOf(form, d, allowed) {
  if (form === null || typeof form !== "object" || !allowed.includes(form.kind)) refuse(`this client does not compute ${form && form.kind}`);
  if (form.kind === "centred-column") {
    only(form, ["kind", "column"], "centred-column");
    const column = columnOf(form.column, d);
    const middle = (column.low + column.high) / 2, half = (column.high - column.low) / 2;
    return (x) => {
      const c = (column.entry(x) - middle) / half;
      return Number.isNaN(c) ? 0 : Math.min(Math.max(c, -1), 1);
    };
  }
  if (form.kind === "satisfied") {
    only(form, ["kind", "conditions"], "satisfied");
    if (!Array.isArray(form.conditions)) refuse("conditions are a list");
    const parts = form.conditions.map((condition) => conditionOf(condition, d));
    return (x) => (parts.every((holds) => holds(x)) ? 1 : -1);
  }
  only(form, ["kind", "column", "cells", "edges"], "cell");
  const column = columnOf(form.column, d), cells = whole(form.cells, 1, 1e6, "cells");
  if (!Array.isArray(form.edges) || ![0, cells + 1].includes(form.edges.length)) refuse("edges are one more than the cells");
  const edges = form.edges.map((e) => finite(e, "an edge"));
  if (!edges.every((e, i) => i === 0 || e > edges[i - 1])) refuse("edges rise");
  const value = (x) => {
    const at = edges.length ? interval(column.entry(x), edges) : column.code(x);
    return at < 0 || at >= cells ? cells : at;
  };
  value.categories = cells + 1;
  return value;
}

function interval(v, edges) {
  const last = edges.length - 1;
  if (!(v >= edges[0] && v <= edges[last])) return -1;
  if (v === edges[last]) return last - 1;
  let at = 0;
  while (edges[at + 1] <= v) at += 1;
  return at;
}

function conditionOf(form, d) {
  only(form, ["column", "order", "bound"], "a condition");
  const column = columnOf(form.column, d), bound = finite(form.bound, "bound");
  const orders = { "<": (v) => v < bound, "<=": (v) => v <= bound, ">": (v) => v > bound, ">=": (v) => v >= bound, "=": (v) => v === bound, "==": (v) => v === bound };
  if (!Object.hasOwn(orders, form.order)) refuse(`this client does not compare by ${form.order}`);
  const holds = orders[form.order];
  return (x) => holds(column.coded ? column.code(x) : column.entry(x));
}

// --------------------------------------------------------------------------------------------------------------------- channels

function oneBit(value, keep, words) {
  const p = Math.min(Math.max(0.5 + 0.5 * value, 0), 1);
  const scaled = p * 2 ** 53; // exact: a power of two
  const steps = BigInt(p > 0.5 ? Math.floor(scaled) : Math.ceil(scaled));
  const sign = words() >> 11n < steps;
  const kept = words() < keep;
  return [sign === kept];
}

function subset(code, k, width, truth, words) {
  const holds = words() < truth;
  for (;;) {
    const keys = Array.from({ length: k }, () => words() & ((1n << 62n) - 1n));
    const others = [...keys.keys()].filter((j) => j !== code).sort((a, b) => (keys[a] < keys[b] ? -1 : keys[a] > keys[b] ? 1 : 0));
    if (others.some((j, i) => i > 0 && keys[j] === keys[others[i - 1]])) continue; // an order that falls back on places is not uniform
    const out = new Array(k).fill(false);
    for (const j of others.slice(0, width - 1)) out[j] = true;
    out[holds ? code : others[width - 1]] = true;
    return out;
  }
}

function secureWords() {
  let held = new BigUint64Array(0), used = 0;
  return () => {
    if (used === held.length) {
      held = crypto.getRandomValues(new BigUint64Array(64));
      used = 0;
    }
    const word = held[used];
    held[used] = 0n;
    used += 1;
    return word;
  };
}

// ---------------------------------------------------------------------------------------------------------------------- reports

/** The report of a record: `x` as an array of d numbers, `{ x }`, or the plan's columns by name. Every call spends the budget again. */
export function report(device, record, { token = null } = {}) {
  return reportFrom(secureWords(), device, record, token);
}

/** For test vectors alone: whoever knows the words can take the noise off. */
export function reportFrom(words, device, record, token = null) {
  let x = recordOf(device, record);
  if (token !== null && !(token instanceof Uint8Array && token.length === 16)) refuse("a token is 16 bytes");
  if (!x.every(Number.isFinite)) x = x.map(() => 0);
  for (const rule of device.rules) x = rule(x);
  const bits = device.draws.flatMap((draw) => draw.encode(draw.value(x), words));
  const out = new Uint8Array(device.length);
  out.set(MAGIC, 0);
  out[6] = 1;
  for (let i = 0; i < 32; i += 1) out[8 + i] = parseInt(device.plan.slice(2 * i, 2 * i + 2), 16);
  out.set(token === null ? crypto.getRandomValues(new Uint8Array(16)) : token, 40);
  bits.forEach((bit, i) => {
    if (bit) out[HEADER + (i >> 3)] |= 1 << (i & 7);
  });
  return out;
}

function recordOf(device, record) {
  let x = record;
  if (record !== null && typeof record === "object" && !Array.isArray(record)) {
    const names = Object.keys(record).sort().join();
    if (names === "x") x = record.x;
    else if (device.columns.length && names === [...device.columns].sort().join()) x = device.columns.map((name) => record[name]);
    else refuse("a record is x, or the plan's columns by name");
  }
  if (!Array.isArray(x) || x.length !== device.d || !x.every((v) => typeof v === "number")) refuse(`x is ${device.d} numbers`);
  return [...x];
}
