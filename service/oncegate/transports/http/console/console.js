"use strict";
// Looks at the gateway every two seconds, as whoever reads the page: nothing is written, and the key stays in memory.
const LOOK_MS = 2000, KEPT_MS = 5 * 60 * 1000, MINUTE_MS = 60 * 1000, ROWS = 20;
const CAUSES = {
  client_retry: "client retry: a reply was lost",
  task_retry: "task retry: run again, or beside",
  batch_replay: "batch replay",
  zombie: "zombie: a fenced attempt",
  other_job: "another job",
  upstream: "upstream: the source has it twice",
  unknown: "unknown",
};
const STATES = {
  ABSENT: "never seen, released, forgotten, or past the horizon: the next claim is granted",
  CLAIMED_LIVE: "claimed: an attempt may be writing it",
  CLAIMED_OVER: "claimed, and its lease is over: in doubt, the next claim takes it over",
  DONE: "done: written; everybody is told DUPLICATE",
  TAKEN: "taken: it belongs to one owner",
};
const $ = (id) => document.getElementById(id);
let key = "", paused = false, looks = [], claimedTo = new Map(), claimedAt = 0, asking = 0;

async function ask(path) {
  const headers = { Accept: "application/json" };
  if (key) headers.Authorization = `Bearer ${key}`;
  const reply = await fetch(path, { headers, credentials: "omit", redirect: "error" });
  const told = await reply.json();
  if (!reply.ok) throw Object.assign(new Error(told.detail || `status ${reply.status}`), { status: reply.status });
  return told;
}
const inside = (path) => `v1/namespaces/${encodeURIComponent($("namespace").value)}${path}`;
// What this reader may not see is left out, and said.
const allowed = (path) => ask(path).catch((error) => { if (error.status === 403) return null; throw error; });

function made(tag, text = "", kind = "") {
  const found = document.createElement(tag);
  found.textContent = text;
  if (kind) found.className = kind;
  return found;
}
const row = (...cells) => { const found = made("tr"); found.append(...cells); return found; };
const number = (value) => made("td", value === null ? "–" : value.toLocaleString("en"), "number");
const rate = (value) => (value >= 100 ? Math.round(value).toLocaleString("en") : value.toFixed(1));
const many = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;
const percent = (value) => `${(100 * value).toFixed(value && value < 0.01 ? 2 : 1)} %`;
const time = (ms) => new Date(ms).toISOString().replace("T", " ").slice(0, 19) + " UTC";
function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  while (bytes >= 1024 && at < units.length - 1) { bytes /= 1024; at += 1; }
  return `${at ? bytes.toFixed(1) : bytes} ${units[at]}`;
}
function span(ms) {
  const units = [["d", 86400000], ["h", 3600000], ["min", 60000], ["s", 1000]];
  const [unit, each] = units.find(([, one]) => ms >= one) || units[3];
  return `${(ms / each).toFixed(unit === "s" ? 0 : 1)} ${unit}`;
}
function pairs(list, told) {
  list.replaceChildren(...told.flatMap(([name, value]) => [made("dt", name), made("dd", value)]));
}

function showDuplicates(now, counters) {
  looks.push({ at: now, ...counters });
  looks = looks.filter((one) => now - one.at <= KEPT_MS);
  const before = looks.find((one) => now - one.at <= MINUTE_MS), seconds = (now - before.at) / 1000;
  const since = (name) => Math.max(0, counters[name] - before[name]);
  const share = (granted, duplicates) => (granted + duplicates ? duplicates / (granted + duplicates) : 0);
  $("share-ever").textContent = percent(share(counters.granted, counters.duplicates));
  if (seconds) {
    $("share").textContent = percent(share(since("granted"), since("duplicates")));
    $("duplicate-rate").textContent = rate(since("duplicates") / seconds);
    $("granted-rate").textContent = rate(since("granted") / seconds);
  }
  const most = Math.max(1, ...Object.keys(CAUSES).map((one) => counters[`duplicates_${one}`]));
  $("causes").replaceChildren(...Object.entries(CAUSES).map(([cause, words]) => {
    const name = `duplicates_${cause}`, held = made("td"), bar = made("span", "", "bar");
    bar.style.width = `${(100 * counters[name]) / most}%`;
    if (counters[name]) held.append(bar);
    return row(made("td", words), number(since(name)), number(counters[name]), held);
  }));
  draw(share);
}
function draw(share) {
  const points = looks.slice(1).map((one, at) =>
    share(Math.max(0, one.granted - looks[at].granted), Math.max(0, one.duplicates - looks[at].duplicates)));
  if (!points.length) return;
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline"), top = Math.max(0.01, ...points);
  const x = (at) => (points.length > 1 ? (600 * at) / (points.length - 1) : 600);
  const whole = points.length > 1 ? points : [points[0], points[0]];
  line.setAttribute("points", whole.map((one, at) => `${points.length > 1 ? x(at) : 600 * at},${86 - (80 * one) / top}`).join(" "));
  $("line").replaceChildren(line);
  const minutes = span(Math.max(LOOK_MS, looks.at(-1).at - looks[0].at));
  $("line-note").textContent = `Share of duplicates in each look, the last ${minutes}; the top is ${percent(top)}.`;
}

function showProducers(now, told) {
  if (!told) { $("producers").replaceChildren(); $("producers-note").textContent = "This key may not see producers (role read or admin)."; return; }
  const seconds = claimedAt ? (now - claimedAt) / 1000 : 0, seen = new Map();
  const found = told.producers.map((one) => {
    const before = claimedTo.get(one.producer), claimed = one.claimed_to === null ? -1 : one.claimed_to;
    seen.set(one.producer, claimed);
    return { ...one, rate: seconds && before !== undefined ? Math.max(0, claimed - before) / seconds : null };
  });
  [claimedTo, claimedAt] = [seen, now];
  found.sort((one, other) => (other.rate || 0) - (one.rate || 0));
  $("producers").replaceChildren(...found.map((one) => row(
    made("td", one.producer), made("td", one.driver), made("td", one.rate === null ? "–" : rate(one.rate), "number"),
    number(one.claimed_to), number(one.watermark), number(one.unacked), number(one.epoch))));
  const lag = Math.max(0, ...found.map((one) => one.unacked));
  $("producers-note").textContent = told.total
    ? `${many(told.total, "producer")}; those active last are shown. Lag: claimed and not acked; the most is ${lag.toLocaleString("en")}.`
    : "No producer is registered: sequences are not used here.";
}
function showLeft(told) {
  if (!told) { $("left").replaceChildren(); $("left-note").textContent = "This key may not see claims (role read or admin)."; return; }
  $("left").replaceChildren(...told.claims.map((one) => row(
    made("td", one.claim, "mono"), number(one.ids), made("td", span(one.over_ms)), made("td", time(one.wall_ms)),
    made("td", `${one.token.slice(0, 8)}…, call ${one.call}`, "mono"))));
  $("left-note").textContent = told.total
    ? `${many(told.total, "claim")}: whether the ids are written, nobody has said. Look into the sink, then oncegate resolve.`
    : "None: every open claim has a lease.";
}
function showSizes(told) {
  const counters = told.counters;
  pairs($("sizes"), [
    ["ids known", counters.ids.toLocaleString("en")],
    ["of these on disk", counters.cold_ids.toLocaleString("en")],
    ["open claims", counters.open_claims.toLocaleString("en")],
    ["staged", size(counters.stage_bytes)],
    ["results in memory", size(counters.results_bytes)],
    ["filters in memory", size(counters.cold_bytes)],
    ["takeovers", counters.takeovers.toLocaleString("en")],
    ["horizon", told.horizon_ms ? span(told.horizon_ms) : "for ever"],
    ["failing", Object.values(told.failing).join("; ") || "nothing"],
  ]);
}
function showTrail(told) {
  const found = told ? told.actions : [];
  $("trail").replaceChildren(...found.map((one) =>
    made("li", `${time(one.wall_ms)} · ${one.who} · ${[one.action, one.subject].filter(Boolean).join(" ")} · ${one.why}`)));
  if (!found.length) $("trail").append(made("li", told ? "Nothing yet." : "This key may not see it (role admin)."));
}

async function look() {
  const mine = ++asking;
  try {
    const listed = await ask("v1/namespaces?limit=1000");
    fill($("namespace"), listed.namespaces);
    if (!listed.namespaces.length) throw new Error("this key names no namespace that is there");
    const [told, producers, left, trail, gateway] = await Promise.all([
      ask(inside("")), allowed(inside(`/producers?limit=${ROWS}`)), allowed(inside(`/claims?limit=${ROWS}`)),
      allowed(inside("/audit?limit=8")), allowed("v1/gateway"),
    ]);
    if (mine !== asking) return;
    const now = Date.now();
    showDuplicates(now, told.counters);
    showProducers(now, producers);
    showLeft(left);
    showSizes(told);
    showTrail(trail);
    const drained = gateway && gateway.draining ? `The gateway is drained by ${gateway.who}: ${gateway.why}. Undo: oncegate drain --undo` : "";
    alarm(drained);
    $("status").textContent = `Looked at ${new Date(now).toLocaleTimeString("en-GB")}`;
  } catch (error) {
    if (mine !== asking) return;
    const unknown = error.status === 401 ? "The gateway asks for a key: enter one above." : `The gateway does not answer: ${error.message}`;
    alarm(unknown);
    $("status").textContent = "No answer";
  }
}
function alarm(text) {
  if ($("alarm").textContent !== text) $("alarm").textContent = text;
  $("alarm").hidden = !text;
}
function fill(select, names) {
  if (names.join("\n") === [...select.options].map((one) => one.value).join("\n")) return;
  const chosen = select.value;
  select.replaceChildren(...names.map((name) => new Option(name, name, false, name === (chosen || "default"))));
}
async function explain(event) {
  event.preventDefault();
  const query = new URLSearchParams({ id: $("id").value, id_set: $("id-set").value });
  try {
    const told = await ask(inside(`/ids:explain?${query}`));
    const known = [["state", STATES[told.state]]];
    if (told.claim) known.push(["claim", told.claim], ["attempt", `${told.token}, call ${told.call}`]);
    if (told.owner) known.push(["owner", `${told.owner} (a hash of its name)`]);
    if (told.wall_ms) known.push(["since", time(told.wall_ms)]);
    if (told.lease_left_ms) known.push(["lease left", span(told.lease_left_ms)]);
    if (told.topic) known.push(["written to", `${told.topic}, partition ${told.partition}, from offset ${told.first_offset} on`]);
    if (told.takeover) known.push(["takeover", "an earlier holder may have written it too"]);
    if (told.state === "DONE" || told.state === "TAKEN") known.push(["kept", told.kept_until_ms ? `until ${time(told.kept_until_ms)} at least` : "for ever"]);
    pairs($("explained"), known);
  } catch (error) { pairs($("explained"), [["refused", error.message]]); }
}
function begin() { looks = []; claimedTo = new Map(); claimedAt = 0; look(); }

$("key-form").addEventListener("submit", (event) => { event.preventDefault(); key = $("key").value.trim(); begin(); });
$("namespace").addEventListener("change", begin);
$("explain").addEventListener("submit", explain);
$("pause").addEventListener("click", () => {
  paused = !paused;
  $("pause").setAttribute("aria-pressed", String(paused));
  $("pause").textContent = paused ? "Go on" : "Pause";
  if (!paused) look();
});
document.addEventListener("keydown", (event) => {
  const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); $("id").focus(); }
});
setInterval(() => { if (!paused && !document.hidden) look(); }, LOOK_MS);
look();
