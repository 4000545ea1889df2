// Boxes that need no text, as pixels: thousands of them are painted at once, below everything that the canvas draws.

/** The pixels of the picture that is being drawn; null if there are none: boxes are then drawn one by one. */
let layer = null;
const inks = new Map();
const probe = document.createElement("canvas").getContext("2d", { willReadFrequently: true });

/** The pixel of a colour. */
function inkOf(colour) {
    let ink = inks.get(colour);
    if (ink === undefined) {
        probe.clearRect(0, 0, 1, 1);
        probe.fillStyle = colour;
        probe.fillRect(0, 0, 1, 1);
        [ink] = new Uint32Array(probe.getImageData(0, 0, 1, 1).data.buffer);
        inks.set(colour, ink);
    }
    return ink;
}

/** Draws on the screen with a layer. */
function withLayer(ratio, paint) {
    const { width: wide, height: tall } = canvas;
    const kept = withLayer.kept;
    if (kept?.image.width === wide && kept.image.height === tall) kept.pixels.fill(0);
    else if (wide && tall) {
        const below = document.createElement("canvas"), image = new ImageData(wide, tall);
        below.width = wide; below.height = tall;
        withLayer.kept = { below, image, pixels: new Uint32Array(image.data.buffer) };
    }
    layer = wide && tall ? { ...withLayer.kept, ratio } : null;
    try { paint(); } finally {
        if (layer) {
            layer.below.getContext("2d").putImageData(layer.image, 0, 0);
            context.globalCompositeOperation = "destination-over";
            context.drawImage(layer.below, 0, 0, width, height);
            context.globalCompositeOperation = "source-over";
        }
        layer = null;
    }
}

/** A box that is below texts and lines; its parts left of `left` or above `top` in a layer are clipped. */
function box(x, y, wide, tall, colour, left = 0, top = 0) {
    if (!layer) { context.fillStyle = colour; context.fillRect(x, y, wide, tall); return; }
    const { ratio, pixels, image } = layer, ink = inkOf(colour);
    const from = Math.max(Math.round(x * ratio), Math.round(left * ratio)), to = Math.min(Math.max(Math.round((x + wide) * ratio), Math.round(x * ratio) + 1), image.width);
    const bottom = Math.min(Math.round((y + tall) * ratio), image.height);
    for (let line = Math.max(Math.round(y * ratio), Math.round(top * ratio)); line < bottom; line++) {
        const begin = line * image.width;
        if (to - from === 1) pixels[begin + from] = ink; else if (to > from) pixels.fill(ink, begin + from, begin + to);
    }
}
/** One of a row: the canvas clips rows at their titles and at the ruler. */
const rowBox = (x, y, wide, tall, colour) => box(x, y, wide, tall, colour, LEFT, RULER);
