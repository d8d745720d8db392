/* Numbers for people. */
function formatBytes(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0, value = Math.abs(bytes);
  while (value >= 1024 && unit < 5) {
    value /= 1024;
    unit++;
  }
  const digits = unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2;
  return (bytes < 0 ? "-" : "") + value.toFixed(digits) + " " + units[unit];
}

/* For an axis: "32 MiB" instead of the "32.0 MiB" of formatBytes. */
function formatTick(bytes) {
  return formatBytes(bytes).replace(/\.0+ /, " ");
}

function formatExact(bytes) {
  return bytes < 1024 ? formatBytes(bytes) : `${formatBytes(bytes)}  (${formatCount(bytes)} bytes)`;
}

function formatCount(count) {
  return Math.round(count).toString().replace(/\B(?=(\d{3})+$)/g, "\u202f");
}

/* "1 block", "2 blocks". */
function formatNumber(count, noun) {
  return `${formatCount(count)} ${noun}${count === 1 ? "" : "s"}`;
}

function formatPercent(part, whole) {
  return whole ? (100 * part / whole).toFixed(1) + "%" : "";
}

function formatTime(ms) {
  if (ms < 1)
    return (ms * 1000).toFixed(ms < 0.01 ? 1 : 0) + " \u00b5s";
  if (ms < 1000)
    return ms.toFixed(ms < 10 ? 2 : 1) + " ms";
  if (ms < 60000)
    return (ms / 1000).toFixed(ms < 10000 ? 2 : 1) + " s";
  return formatClock(ms / 1000, 0);
}

/* Seconds as 3:04, 1:02:03 or, with digits, 3:04.25. */
function formatClock(seconds, digits) {
  const whole = Number(seconds.toFixed(digits)), m = Math.floor(whole / 60), h = Math.floor(m / 60);
  const s = (whole - m * 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return (h ? `${h}:${String(m % 60).padStart(2, "0")}` : m) + ":" + s;
}

/* A time on an axis whose ticks are `step` apart: all ticks have the same unit and digits. */
function formatTimeTick(ms, step) {
  if (ms === 0)
    return "0";
  const digits = (unit) => Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  if (step < 1)
    return (ms * 1000).toFixed(digits(0.001)) + " \u00b5s";
  if (step < 1000)
    return ms >= 60000 ? formatClock(ms / 1000, digits(1000))
      : ms >= 10000 || step >= 100 ? (ms / 1000).toFixed(digits(1000)) + " s" : ms.toFixed(digits(1)) + " ms";
  if (step >= DAY)
    return Math.round(ms / DAY) + " d";
  return ms < 60000 && step < 60000 ? ms / 1000 + " s" : formatClock(ms / 1000, 0);
}

function formatAddress(address) {
  return "0x" + address.toString(16);
}

const DAY = 86400000; /* in ms */

/* Steps of 1, 2, 4, 8 ... for bytes, of 1, 2, 5 for numbers, and those of a clock for times. */
function byteStep(range, count) {
  return 2 ** Math.ceil(Math.log2(Math.max(1, range / count)));
}

function decimalStep(range, count) {
  const raw = Math.max(range / count, 1e-9), power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= raw * (1 - 1e-9));
}

function timeStep(range, count) {
  const raw = range / count, steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200,
    10800, 21600, 43200].map((s) => s * 1000);
  return raw <= 1000 ? decimalStep(range, count)
    : steps.find((step) => step >= raw) || DAY * decimalStep(range / DAY, count);
}
