// A distribution over the target's cells as a picture: dark violet is low, pale yellow is the peak.

// The ramp of simsc.pictures.ramps.
const RAMP = [
  [19, 0, 76], [56, 0, 102], [97, 14, 111], [138, 34, 109], [177, 56, 100],
  [210, 84, 85], [236, 118, 65], [251, 157, 48], [254, 199, 74], [251, 241, 99],
];
const ENLARGED = 10;

/** Draw probabilities (rows of numbers) on a canvas that lies over the image. */
export function drawHeatmap(canvas, probabilities) {
  const height = probabilities.length * ENLARGED;
  const width = probabilities[0].length * ENLARGED;
  canvas.width = width;
  canvas.height = height;
  const top = Math.max(...probabilities.flat());
  const pixels = new ImageData(width, height);
  for (let y = 0; y < height; y++) {
    for (let x = 0; x < width; x++) {
      const level = between(probabilities, (x + 0.5) / ENLARGED - 0.5, (y + 0.5) / ENLARGED - 0.5) / top;
      pixels.data.set([...color(level), 45 + 210 * level], 4 * (y * width + x));
    }
  }
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

export function clearHeatmap(canvas) {
  canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
}

function color(level) {
  const place = Math.min(Math.max(level, 0), 1) * (RAMP.length - 1);
  const low = Math.min(Math.floor(place), RAMP.length - 2);
  return RAMP[low].map((value, channel) => value + (place - low) * (RAMP[low + 1][channel] - value));
}

function between(rows, x, y) {
  const clamp = (value, count) => Math.min(Math.max(value, 0), count - 1);
  const cx = clamp(x, rows[0].length);
  const cy = clamp(y, rows.length);
  const [x0, y0] = [Math.floor(cx), Math.floor(cy)];
  const [x1, y1] = [clamp(x0 + 1, rows[0].length), clamp(y0 + 1, rows.length)];
  const [fx, fy] = [cx - x0, cy - y0];
  return (1 - fy) * ((1 - fx) * rows[y0][x0] + fx * rows[y0][x1]) + fy * ((1 - fx) * rows[y1][x0] + fx * rows[y1][x1]);
}
