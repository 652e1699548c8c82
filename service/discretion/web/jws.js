// What a browser can check about a certificate by itself: who signed it, what it is about, and whether its sum is right.
// `discretion verify` checks more, offline: it works every mechanism out again from the request. See UNCHECKED.

export const CERTIFICATE = "discretion-certificate+jws";
export const LEDGER_HEAD = "discretion-ledger-head+jws";

// Something does not hold; the sentence says what.
export class Wrong extends Error {}

export const UNCHECKED = [
  "That these mechanisms, their sensitivities and their noise are the ones that the request calls for, and its sentences the right ones.",
  "That the software drew the noise that it says; no file can show that.",
];

// --- texts and bytes ---------------------------------------------------------------------------------------------

const encoder = new TextEncoder();

// As written: an invalid byte or a byte-order mark is no text of ours.
export function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Wrong("The file is not a text in UTF-8.");
  }
}

function base64url(bytes) {
  let binary = "";
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
}

// Strictly: of several spellings of the same bytes only one is accepted.
function unbase64url(text, name) {
  let bytes = null;
  if (typeof text === "string" && /^[\w-]+$/.test(text)) {
    try {
      bytes = Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), (sign) => sign.charCodeAt(0));
    } catch { /* told below */ }
  }
  if (bytes === null || base64url(bytes) !== text) throw new Wrong(`The ${name} is not base64url text without padding.`);
  return bytes;
}

async function digest(bytes) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
}

export async function sha256(text) {
  return Array.from(await digest(encoder.encode(text)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// RFC 8785. JSON.stringify writes texts and numbers exactly as it asks; what is left is the order of the keys.
export function canonical(value) {
  if (typeof value === "bigint") return String(value);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (value !== null && typeof value === "object") {
    return `{${Object.keys(value).sort().map((key) => `${canonical(key)}:${canonical(value[key])}`).join(",")}}`;
  }
  if (typeof value === "number" && !Number.isFinite(value)) throw new Wrong("A number is too large for JSON.");
  if (typeof value === "string" && /[\ud800-\udfff]/u.test(value)) throw new Wrong("A text holds half a character.");
  return JSON.stringify(value);
}

// A JSON object in which no key stands twice, for readers differ in which of two they believe.
export function parse(text, name) {
  let value;
  try {
    value = JSON.parse(text);
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new SyntaxError();
    if (canonical(value) === text) return value;
  } catch (problem) {
    if (problem instanceof Wrong) throw new Wrong(`The ${name} cannot be read. ${problem.message}`);
    throw new Wrong(`The ${name} is not a JSON object.`);
  }
  refuseTwins(text, name);
  return value;
}

function refuseTwins(text, name) {
  const inside = [];
  for (const [found, key] of text.matchAll(/("(?:[^"\\]|\\.)*")\s*:|"(?:[^"\\]|\\.)*"|[{}]/g)) {
    if (found === "{") inside.push(new Set());
    else if (found === "}") inside.pop();
    else if (key !== undefined) {
      const keys = inside[inside.length - 1];
      const said = JSON.parse(key);
      if (keys.has(said)) throw new Wrong(`In the ${name} the key ${key} stands twice.`);
      keys.add(said);
    }
  }
}

// --- signatures --------------------------------------------------------------------------------------------------

// Why this browser cannot check a signature, or null if it can.
export async function hindrance() {
  if (!globalThis.crypto || !crypto.subtle) {
    return "This page was not loaded over HTTPS, and browsers check signatures on secure pages only.";
  }
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), "Ed25519", false, ["verify"]);
    return null;
  } catch (problem) {
    return problem.name === "NotSupportedError" ? "This browser does not know Ed25519 signatures yet." : null;
  }
}

// RFC 7638. A key is called by it, so that no key goes by another's name.
export async function thumbprint(x) {
  return base64url(await digest(encoder.encode(canonical({ crv: "Ed25519", kty: "OKP", x }))));
}

async function publicKey(jwks, kid) {
  const keys = jwks.keys;
  if (!Array.isArray(keys) || !keys.every((key) => key !== null && typeof key === "object" && !Array.isArray(key))) {
    throw new Wrong("The key list is not a JWKS document.");
  }
  if (keys.some((key) => "d" in key)) throw new Wrong("The key list holds a private key; it must hold public ones only.");
  const found = keys.filter((key) => key.kid === kid);
  if (found.length !== 1 || typeof kid !== "string") {
    throw new Wrong(`The key list does not hold, exactly once, the key that signed this: ${kid}.`);
  }
  const { kty, crv, x, alg = "EdDSA", use = "sig" } = found[0];
  if (kty !== "OKP" || crv !== "Ed25519" || alg !== "EdDSA" || use !== "sig") {
    throw new Wrong("The key in the key list is not an Ed25519 key for signatures.");
  }
  const raw = unbase64url(x, "public key");
  if (raw.length !== 32 || (await thumbprint(x)) !== kid) {
    throw new Wrong("The key in the key list goes by a name that is not its own.");
  }
  return crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
}

// The payload and who signed it; the signature is checked before the payload is read.
export async function opened(text, jwks, kind = CERTIFICATE) {
  const parts = parse(text, "certificate");
  if (canonical(Object.keys(parts).sort()) !== '["payload","protected","signature"]') {
    throw new Wrong("A certificate has exactly a payload, a protected header and a signature.");
  }
  const header = parse(decoded(unbase64url(parts.protected, "protected header")), "protected header");
  if (header.alg !== "EdDSA") throw new Wrong("The certificate is signed with another algorithm than EdDSA.");
  if (header.typ !== kind || Object.keys(header).length !== 3) {
    throw new Wrong(`The protected header is not one of a ${kind === CERTIFICATE ? "certificate" : "ledger's head"}.`);
  }
  const [body, signature] = [unbase64url(parts.payload, "payload"), unbase64url(parts.signature, "signature")];
  const key = await publicKey(jwks, header.kid);
  if (!(await crypto.subtle.verify("Ed25519", key, signature, encoder.encode(`${parts.protected}.${parts.payload}`)))) {
    throw new Wrong("The signature does not belong to this certificate: one of the two was changed.");
  }
  const written = decoded(body);
  const payload = parse(written, "payload");
  if (canonical(payload) !== written) throw new Wrong("The payload is not canonical JSON.");
  return { payload, kid: header.kid };
}

// What a certificate says, for a page that checks nothing: the service that sent it is believed.
export function unchecked(text) {
  return JSON.parse(decoded(unbase64url(JSON.parse(text).payload, "payload")));
}

// --- exact sums --------------------------------------------------------------------------------------------------

function reduced(top, bottom) {
  let [a, b] = [top, bottom];
  while (b) [a, b] = [b, a % b];
  return [top / a, bottom / a];
}

function ratio(text) {
  const found = /^([1-9]\d{0,1999})\/([1-9]\d{0,1999})$/.exec(text);
  if (!found) throw new Wrong("A sensitivity or a scale in the certificate is not a fraction above zero.");
  return reduced(BigInt(found[1]), BigInt(found[2]));
}

const plus = ([a, b], [c, d]) => reduced(a * d + c * b, b * d);
const over = ([a, b], [c, d]) => reduced(a * d, b * c);
const less = ([a, b], [c, d]) => a * d < c * b;
const half = ([a, b]) => reduced(a, 2n * b);
const square = ([a, b]) => [a * a, b * b];
const written = ([a, b]) => `${a}/${b}`;
const larger = (one, other) => (less(one, other) ? other : one);
const about = ([a, b]) => Number((a * 10n ** 15n) / b) / 1e15;

// What one release costs: a ρ, or a pure ε. The table is the one of privacy/events.py.
function cost({ mechanism, sensitivity, scale }) {
  const found = over(ratio(sensitivity.value), ratio(scale.value));
  if (mechanism === "laplace") return { pure: found };
  if (mechanism === "gaussian") return { rho: half(found) };
  if (mechanism === "symmetric-gaussian") return { rho: half(half(found)) };
  throw new Wrong(`There is no mechanism "${mechanism}" whose cost is known.`);
}

// ρ of all of them. A unit sits in one half of the data only, so that the dearer half counts; pure ε add up to ε²/2.
export function composed(mechanisms) {
  const sums = ["first half", "second half"].map((part) => {
    let [rho, pure] = [[0n, 1n], [0n, 1n]];
    for (const one of mechanisms) {
      if (!["everyone", "first half", "second half"].includes(one.part)) throw new Wrong(`There is no part "${one.part}" of the data.`);
      if (one.part !== "everyone" && one.part !== part) continue;
      const found = cost(one);
      if (found.pure) pure = plus(pure, found.pure);
      else rho = plus(rho, found.rho);
    }
    return { rho: plus(rho, half(square(pure))), pure };
  });
  const allPure = mechanisms.every((one) => one.mechanism === "laplace");
  return { rho: larger(sums[0].rho, sums[1].rho), pure: allPure ? larger(sums[0].pure, sums[1].pure) : null };
}

// Canonne, Kamath and Steinke 2020, Prop. 12 in v4, at its best α = 1 + β; Newton's method in ln β.
function epsilon(rho, delta) {
  const room = Math.log(1 / delta);
  let beta = Math.sqrt(room / rho);
  for (let turn = 0; turn < 100; turn += 1) {
    const bend = rho * beta * beta;
    beta *= Math.exp(-(bend + Math.log1p(beta) - room) / (2 * bend + beta / (1 + beta)));
  }
  return Math.max(0, (1 + beta) * rho + (room - Math.log1p(beta)) / beta - Math.log1p(1 / beta));
}

// --- a certificate -----------------------------------------------------------------------------------------------

function checkSums({ mechanisms, privacy, derived_from: origin }) {
  if (!Array.isArray(mechanisms) || !mechanisms.length) throw new Wrong("The certificate lists no mechanism.");
  for (const one of mechanisms) {
    if (written(composed([one]).rho) !== one.rho) throw new Wrong(`The certificate misstates what the release of the ${one.statistic} costs.`);
  }
  const { rho, pure } = composed(mechanisms);
  if (written(rho) !== privacy.rho) {
    throw new Wrong(`The mechanisms add up to ρ = ${written(rho)}, and the certificate says ${privacy.rho}.`);
  }
  if ((pure && written(pure)) !== privacy.pure_epsilon) throw new Wrong("The certificate misstates the pure ε of its mechanisms.");
  if (less(decimal(privacy.charged_rho), rho)) throw new Wrong(`The charged ρ of ${privacy.charged_rho} is less than the releases cost.`);
  if (privacy.further_rho !== (origin ? "0" : privacy.charged_rho)) throw new Wrong("The certificate misstates what was charged further.");
  checkEpsilon(privacy.epsilon, about(rho), pure && about(pure));
}

function decimal(text) {
  const found = /^(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  if (!found) throw new Wrong("An amount of ρ in the certificate is not a decimal number.");
  return reduced(BigInt(found[1] + (found[2] || "").padEnd(9, "0")), 10n ** 9n);
}

// By ordinary floating point, so to a thousandth: shown ε are rounded up to that.
function checkEpsilon(rows, rho, pure) {
  if (canonical(rows.map(({ delta }) => delta)) !== canonical(DELTAS)) throw new Wrong("The certificate leaves out an ε, or states another.");
  for (const { delta, epsilon: said } of rows) {
    const found = Math.min(epsilon(rho, Number(delta)), pure ?? Infinity);
    const room = 1e-6 * Math.max(1, found);
    if (!(Number(said) >= found - room && Number(said) <= found + 0.001 + room)) {
      throw new Wrong(`At δ = ${delta} the ρ means ε = ${found.toFixed(3)}, and the certificate says ${said}.`);
    }
  }
}

async function checkAbout(text, payload) {
  const kind = "evaluation" in payload ? "evaluation" : "policy";
  const file = parse(text, kind === "policy" ? "policy" : "report");
  const found = await sha256(canonical(file));
  const { id, sha256: certified } = payload[kind];
  if ((file.id ?? null) !== id) throw new Wrong(`The certificate is about another ${kind}: it names ${id}, and the file is ${file.id}.`);
  if (found !== certified) {
    throw new Wrong(`The ${kind} is not the one that was certified: its digest is ${found}, and the certificate says ${certified}.`);
  }
}

// The row that paid, as the ledger itself has it.
async function checkRow(payload, ledger) {
  const { population, sequence, hash } = payload.ledger;
  if (ledger.population !== population) throw new Wrong("The certificate names another population than the ledger's.");
  const row = ledger.rows.find((one) => one.sequence === sequence);
  if (!row) throw new Wrong(`The ledger has no row ${sequence}, which the certificate says has paid.`);
  const rehashed = await rowHash(population, row);
  if (row.hash !== hash || rehashed !== hash) throw new Wrong(`Row ${sequence} of the ledger is another one than the certificate names.`);
  if (row.kind !== "charge" || row.rho !== payload.privacy.charged_rho) {
    throw new Wrong(`Row ${sequence} of the ledger did not charge ρ = ${payload.privacy.charged_rho}.`);
  }
}

// A row as the ledger hashes it: ρ in whole billionths, the population in it, the hash itself not.
export async function rowHash(population, row) {
  const content = { ...row, population, rho: signedNano(row.rho) };
  delete content.hash;
  return sha256(canonical(content));
}

export function signedNano(text) {
  const found = /^(-?)(\d{1,7})(?:\.(\d{1,9}))?$/.exec(text);
  if (!found) throw new Wrong("An amount of ρ in the ledger is not a decimal number.");
  const nano = BigInt(found[2] + (found[3] || "").padEnd(9, "0"));
  return found[1] ? -nano : nano;
}

const DELTAS = ["1e-5", "1e-6", "1e-9"];
const FIELDS = [
  "composition", "derived_from", "ledger", "mechanisms", "not_covered", "privacy", "promise", "request", "software", "version",
];

const STEPS = [
  ["Signature", "It was signed with a key of the key list, and not changed since."],
  ["Content", "The digest in the certificate is the digest of the released file."],
  ["Sum", "The costs of all mechanisms, added up again exactly, are the ρ it states; ε follows from it."],
  ["Ledger", "The ledger's own row charged this ρ, and its hash is the one in the certificate."],
];

// Every check in turn: { name, says, state: "holds" | "fails" | "open" }, and the payload where the signature holds.
// `askLedger(payload)` gives { population, rows }, or null where it cannot be asked.
export async function examined(text, certificate, jwks, askLedger) {
  const checks = STEPS.map(([name, says]) => ({ name, says, state: "open" }));
  const found = { checks, payload: null, kid: null };
  const acts = [
    async () => Object.assign(found, await opened(certificate, jwks)),
    () => checkAbout(text, found.payload),
    async () => checkVersioned(found.payload),
  ];
  for (const [place, act] of acts.entries()) {
    Object.assign(checks[place], await tried(act, checks[place].says));
    if (!found.payload) return unread(found);
  }
  const ledger = askLedger && (await askLedger(found.payload));
  if (ledger) Object.assign(checks[3], await tried(() => checkRow(found.payload, ledger), checks[3].says));
  else checks[3].says = "The ledger was not asked: compare the row's hash with it yourself.";
  return found;
}

function unread(found) {
  for (const check of found.checks.slice(1)) check.says = "What nobody has signed is not read.";
  return found;
}

function checkVersioned(payload) {
  if (payload.version !== 1) throw new Wrong("This page does not know the certificate's version.");
  const about = "evaluation" in payload ? "evaluation" : "policy";
  if (canonical(Object.keys(payload).sort()) !== canonical([...FIELDS, about].sort())) {
    throw new Wrong("There are unknown or missing fields in the certificate.");
  }
  checkSums(payload);
}

async function tried(act, says) {
  try {
    await act();
    return { state: "holds", says };
  } catch (problem) {
    if (problem instanceof Wrong) return { state: "fails", says: problem.message };
    return { state: "fails", says: "It lacks something that every certificate has, or is larger than any." };
  }
}
