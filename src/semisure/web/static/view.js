/* Two images on a canvas, side by side, that can be zoomed and moved. */

const GAP = 8;
const MOST_ZOOM = 40;

export class View {
  constructor(sizes) {
    this.sizes = sizes; // width and height of the photos
    this.reset();
  }

  reset() {
    this.zoom = 1;
    this.centers = this.sizes.map(([w, h]) => [w / 2, h / 2]);
  }

  /* Where each image lies on a canvas of that width. */
  layout(width) {
    const [[w0, h0], [w1, h1]] = this.sizes;
    this.width = width;
    // equal heights, unless one image is far wider than the other
    const share = Math.min(Math.max((w0 / h0) / (w0 / h0 + w1 / h1), 0.3), 0.7);
    const [a, b] = [(width - GAP) * share, (width - GAP) * (1 - share)];
    this.frames = [[0, 0, a, (h0 * a) / w0], [a + GAP, 0, b, (h1 * b) / w1]];
    this.height = Math.max(...this.frames.map(([, y, , h]) => y + h));
  }

  /* Canvas pixels for one pixel of an image. */
  scale(side) {
    return (this.frames[side][2] / this.sizes[side][0]) * this.zoom;
  }

  place(side, [px, py]) {
    const [x, y, w, h] = this.frames[side];
    const scale = this.scale(side);
    const [cx, cy] = this.centers[side];
    return [x + w / 2 + (px + 0.5 - cx) * scale, y + h / 2 + (py + 0.5 - cy) * scale];
  }

  pixel(side, [x, y]) {
    const [left, top, w, h] = this.frames[side];
    const scale = this.scale(side);
    const [cx, cy] = this.centers[side];
    return [(x - left - w / 2) / scale + cx - 0.5, (y - top - h / 2) / scale + cy - 0.5];
  }

  sideAt([x, y]) {
    return this.frames.findIndex(([left, top, w, h]) => x >= left && x < left + w && y >= top && y < top + h);
  }

  inside(side, [x, y]) {
    const [left, top, w, h] = this.frames[side];
    return x >= left && x <= left + w && y >= top && y <= top + h;
  }

  /* The part of the image that is seen, in its own pixels: x, y, width, height. */
  seen(side) {
    const [w, h] = this.sizes[side].map((length) => length / this.zoom);
    const [cx, cy] = this.centers[side];
    return [cx - w / 2, cy - h / 2, w, h];
  }

  /* Zoom by a factor; the points `fixed` of both images stay where they are. */
  zoomBy(factor, fixed) {
    const zoom = Math.min(Math.max(this.zoom * factor, 1), MOST_ZOOM);
    const ratio = this.zoom / zoom;
    this.zoom = zoom;
    this.centers = this.centers.map((center, side) => {
      const still = fixed[side];
      return still ? center.map((c, k) => still[k] + 0.5 + (c - still[k] - 0.5) * ratio) : center;
    });
    this.clamp();
  }

  move(side, dx, dy) {
    const scale = this.scale(side);
    const [cx, cy] = this.centers[side];
    this.centers[side] = [cx - dx / scale, cy - dy / scale];
    this.clamp();
  }

  /* No view beyond an image's edge. */
  clamp() {
    this.centers = this.centers.map((center, side) => center.map((c, k) => {
      const half = this.sizes[side][k] / this.zoom / 2;
      return Math.min(Math.max(c, half), this.sizes[side][k] - half);
    }));
  }
}
