/* 3D view of a question: the scan, the camera's path, what each view showed, and the boxes of the named objects.
   Loaded when the reader opens it; makes no network requests.

   A page has a <details class="view3d"> with its data as JSON; the scene comes as a script that calls
   renderAgentScene(header, deflated numbers in base64), since pages opened from disk may fetch nothing. */
import {
  Box3, BufferAttribute, BufferGeometry, Color, ColorManagement, DataTexture, DoubleSide, DynamicDrawUsage, FloatType,
  GLSL3, GreaterDepth, InstancedBufferAttribute, InstancedBufferGeometry, Line, LineBasicMaterial, LineSegments,
  LinearSRGBColorSpace, Mesh, MeshBasicMaterial, PerspectiveCamera, Plane, Points, PointsMaterial, RGBAFormat, Scene,
  ShaderMaterial, SphereGeometry, Vector2, Vector3, WebGLRenderer,
} from "three";
import { OrbitControls } from "three/addons/controls/OrbitControls.js";

/* Okabe-Ito palette, as in report.css and question.css. */
const COLOURS = { well: 0x009e73, seen: 0xe69f00, never: 0xd55e00, path: 0x0072b2, now: 0xb8578f, other: 0x545c64 };
const SEEN_WORDS = { well: "clearly visible", seen: "visible, not clearly", never: "not yet visible" };
const FRUSTUM_SHARE = 0.08, STEP_METRES = 0.15, TURN_DEGREES = 10, FILM_SECONDS = 1.6, FLY_SECONDS = 0.6;
const HIDDEN_OPACITY = 0.35;
const POINT_METRES = 0.035, MARKER_METRES = 0.06;
const STRAY_SHARE = 0.01, STRAY_SAMPLES = 20000; // share of a cloud's points, per side, that the top view may crop
const TALL_SHARE = 1.2; // camera distance for tall scans, in multiples of their height

/* Scan colours are display values and must not be converted. */
ColorManagement.enabled = false;

const vector = (numbers) => new Vector3(...numbers);

async function inflated(text) {
  const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

/* Gaussians are drawn back to front as camera-facing quads that cover 2.5 standard deviations of the projected
   Gaussian, using the linearised projection at its centre (Zwicker et al. 2001, "EWA Volume Splatting"). */
const LEAST_SCALE_METRES = 0.0005, SCALE_STEPS = 16, TEXELS = 2048;
const SPLAT_VERTEX = `
precision highp float;
uniform highp sampler2D places, spreads;
uniform sampler2D tints;
uniform vec2 viewport;
uniform float cut;
in float which;
out vec2 offset;
out vec4 tint;
void main() {
  int number = int(which);
  ivec2 at = ivec2(number % ${TEXELS}, number / ${TEXELS});
  vec4 place = texelFetch(places, at, 0), first = texelFetch(spreads, ivec2(at.x * 2, at.y), 0);
  vec2 second = texelFetch(spreads, ivec2(at.x * 2 + 1, at.y), 0).xy;
  vec4 local = modelViewMatrix * vec4(place.xyz, 1.0);
  tint = texelFetch(tints, at, 0);
  offset = position.xy * 2.5;
  gl_Position = vec4(0.0, 0.0, 2.0, 1.0);
  if (place.z > cut || local.z > -0.1) return;
  vec2 focal = vec2(projectionMatrix[0][0], projectionMatrix[1][1]) * viewport / 2.0;
  vec2 across = clamp(local.xy / -local.z, -2.0, 2.0);
  mat3 slope = mat3(vec3(focal.x, 0.0, 0.0), vec3(0.0, focal.y, 0.0), vec3(focal * across, 0.0)) * (1.0 / -local.z);
  mat3 spread = mat3(first.x, first.y, first.z, first.y, first.w, second.x, first.z, second.x, second.y);
  mat3 turned = slope * mat3(modelViewMatrix);
  mat3 seen = turned * spread * transpose(turned);
  float a = seen[0][0] + 0.3, b = seen[0][1], d = seen[1][1] + 0.3;
  float middle = (a + d) / 2.0, reach = length(vec2((a - d) / 2.0, b));
  vec2 axis = abs(b) < 1e-6 ? (a < d ? vec2(0.0, 1.0) : vec2(1.0, 0.0)) : normalize(vec2(b, middle + reach - a));
  vec2 pixels = offset.x * axis * min(sqrt(middle + reach), 512.0)
    + offset.y * vec2(axis.y, -axis.x) * min(sqrt(max(middle - reach, 0.1)), 512.0);
  vec4 clip = projectionMatrix * local;
  gl_Position = clip + vec4(pixels / viewport * 2.0 * clip.w, 0.0, 0.0);
}`;
const SPLAT_FRAGMENT = `
precision highp float;
in vec2 offset;
in vec4 tint;
out vec4 colour;
void main() {
  float square = dot(offset, offset);
  if (square > 6.25) discard;
  colour = vec4(tint.rgb, tint.a * exp(-square / 2.0));
}`;

function splats(positions, colours, shapes, cut) {
  const count = positions.length / 3, rows = Math.ceil(count / TEXELS);
  const places = new Float32Array(4 * TEXELS * rows), spreads = new Float32Array(8 * TEXELS * rows);
  const tints = new Uint8Array(4 * TEXELS * rows);
  const scales = new Uint8Array(shapes, 0, 3 * count), turns = new Int8Array(shapes, 3 * count, 4 * count);
  const opacities = new Uint8Array(shapes, 7 * count, count);
  for (let n = 0; n < count; n++) {
    const [w, x, y, z] = turns.subarray(4 * n, 4 * n + 4), whole = Math.hypot(w, x, y, z) || 1;
    const [r, i, j, k] = [w / whole, x / whole, y / whole, z / whole];
    const axes = [
      [1 - 2 * (j * j + k * k), 2 * (i * j + r * k), 2 * (i * k - r * j)],
      [2 * (i * j - r * k), 1 - 2 * (i * i + k * k), 2 * (j * k + r * i)],
      [2 * (i * k + r * j), 2 * (j * k - r * i), 1 - 2 * (i * i + j * j)],
    ];
    const squares = [0, 1, 2].map((axis) => (LEAST_SCALE_METRES * 2 ** (scales[3 * n + axis] / SCALE_STEPS)) ** 2);
    const of = (row, column) => axes.reduce((sum, axis, m) => sum + squares[m] * axis[row] * axis[column], 0);
    places.set(positions.subarray(3 * n, 3 * n + 3), 4 * n);
    spreads.set([of(0, 0), of(0, 1), of(0, 2), of(1, 1), of(1, 2), of(2, 2)], 8 * n);
    tints.set([...colours.subarray(3 * n, 3 * n + 3), opacities[n]], 4 * n);
  }
  const texture = (data, width, type) => {
    const made = new DataTexture(data, width, rows, RGBAFormat, type);
    made.needsUpdate = true;
    return made;
  };
  const geometry = new InstancedBufferGeometry();
  const corners = new Float32Array([-1, -1, 0, 1, -1, 0, 1, 1, 0, -1, 1, 0]);
  geometry.setAttribute("position", new BufferAttribute(corners, 3));
  geometry.setIndex([0, 1, 2, 0, 2, 3]);
  const order = new InstancedBufferAttribute(Float32Array.from({ length: count }, (_, n) => n), 1);
  order.setUsage(DynamicDrawUsage);
  geometry.setAttribute("which", order);
  geometry.boundingBox = new Box3().setFromArray(positions);
  const object = new Mesh(geometry, new ShaderMaterial({
    side: DoubleSide, glslVersion: GLSL3, vertexShader: SPLAT_VERTEX, fragmentShader: SPLAT_FRAGMENT, transparent: true, depthWrite: false,
    uniforms: {
      places: { value: texture(places, TEXELS, FloatType) }, spreads: { value: texture(spreads, 2 * TEXELS, FloatType) },
      tints: { value: texture(tints, TEXELS) }, viewport: { value: new Vector2() }, cut: { value: 0 },
    },
  }));
  object.frustumCulled = false;
  object.renderOrder = -1; // before the lines
  const depths = new Float32Array(count);
  object.prepare = (renderer, camera) => {
    renderer.getDrawingBufferSize(object.material.uniforms.viewport.value);
    object.material.uniforms.cut.value = cut.constant;
    camera.updateMatrixWorld();
    sorted(positions, camera.matrixWorldInverse.elements, depths, order);
  };
  return object;
}

/* Sort the Gaussians back to front, by depth quantised to 65,536 levels. */
function sorted(positions, view, depths, order) {
  let low = Infinity, high = -Infinity;
  for (let n = 0; n < depths.length; n++) {
    depths[n] = view[2] * positions[3 * n] + view[6] * positions[3 * n + 1] + view[10] * positions[3 * n + 2];
    low = Math.min(low, depths[n]); // the rounded value
    high = Math.max(high, depths[n]);
  }
  const step = 65535 / Math.max(high - low, 1e-6), starts = new Uint32Array(65537);
  for (const depth of depths) starts[Math.floor((depth - low) * step) + 1]++;
  for (let n = 0; n < 65536; n++) starts[n + 1] += starts[n];
  for (let n = 0; n < depths.length; n++) order.array[starts[Math.floor((depths[n] - low) * step)]++] = n;
  order.needsUpdate = true;
}

/* Return the scan as a three.js object: a mesh if it has faces, Gaussians for a splat, else points. */
async function scan({ header, text }, cut) {
  const buffer = await inflated(text);
  const { vertices, faces, low, step } = header;
  const steps = new Uint16Array(buffer, 0, 3 * vertices);
  const positions = Float32Array.from(steps, (value, index) => low[index % 3] + step * value);
  const colours = new Uint8Array(buffer, 6 * vertices, 3 * vertices);
  if (header.splats) return splats(positions, colours, buffer.slice(9 * vertices), cut);
  const geometry = new BufferGeometry();
  geometry.setAttribute("position", new BufferAttribute(positions, 3));
  geometry.setAttribute("color", new BufferAttribute(colours, 3, true));
  const look = { vertexColors: true, clippingPlanes: [cut] };
  if (!faces) return new Points(geometry, new PointsMaterial({ ...look, size: POINT_METRES }));
  const corners = new Uint32Array(buffer.slice(-12 * faces));
  geometry.setIndex(new BufferAttribute(corners, 1));
  return new Mesh(geometry, new MeshBasicMaterial({ ...look, side: DoubleSide }));
}

/* Return lines; parts behind the scan shine through faintly. */
function lines(points, colour, kind = LineSegments) {
  const geometry = new BufferGeometry().setFromPoints(points), look = { color: colour, transparent: true };
  const made = new kind(geometry, new LineBasicMaterial(look));
  const behind = new LineBasicMaterial({ ...look, depthFunc: GreaterDepth, depthWrite: false });
  made.add(new kind(geometry, behind));
  made.paint = (paint, opacity = 1) => [made.material, behind].forEach((material) => {
    material.color.set(paint);
    material.opacity = material === behind ? HIDDEN_OPACITY * opacity : opacity;
  });
  made.paint(colour);
  return made;
}

/* Return the four corners of a view's image, clockwise from the top left, `far` metres in front of its camera. */
function picture({ position, forward, up, fov, part }, far) {
  const ahead = vector(forward), above = vector(up), right = ahead.clone().cross(above);
  const height = Math.tan((fov * Math.PI) / 360) * far, width = (height * part[2]) / part[3];
  const middle = vector(position).addScaledVector(ahead, far);
  return [[-1, 1], [1, 1], [1, -1], [-1, -1]].map(([x, y]) =>
    middle.clone().addScaledVector(right, x * width).addScaledVector(above, y * height));
}

function frustum(view, far) {
  const eye = vector(view.position), corners = picture(view, far);
  return lines(corners.flatMap((corner, index) => [eye, corner, corner, corners[(index + 1) % 4]]), COLOURS.other);
}

function box({ centre, size, axes }) {
  const sides = axes.map((axis, index) => vector(axis).multiplyScalar(size[index] / 2));
  const corner = (signs) => sides.reduce((sum, side, index) => sum.addScaledVector(side, signs[index]), vector(centre));
  const ends = [];
  for (const axis of [0, 1, 2]) {
    for (const [one, other] of [[-1, -1], [-1, 1], [1, -1], [1, 1]]) {
      for (const end of [-1, 1]) {
        const signs = [];
        signs[axis] = end;
        signs[(axis + 1) % 3] = one;
        signs[(axis + 2) % 3] = other;
        ends.push(corner(signs));
      }
    }
  }
  return lines(ends, COLOURS.never);
}

/* Return the CSS matrix that maps a rectangle of w × h pixels to four screen points, clockwise from the top left:
   the projective map between two quadrilaterals (Heckbert 1989, "Fundamentals of Texture Mapping"). */
function laidOver(w, h, [a, b, c, d]) {
  const dx1 = b.x - c.x, dx2 = d.x - c.x, dx3 = a.x - b.x + c.x - d.x;
  const dy1 = b.y - c.y, dy2 = d.y - c.y, dy3 = a.y - b.y + c.y - d.y;
  const whole = dx1 * dy2 - dx2 * dy1;
  const g = (dx3 * dy2 - dx2 * dy3) / whole, k = (dx1 * dy3 - dx3 * dy1) / whole;
  const columns = [
    [(b.x - a.x + g * b.x) / w, (b.y - a.y + g * b.y) / w, 0, g / w],
    [(d.x - a.x + k * d.x) / h, (d.y - a.y + k * d.y) / h, 0, k / h],
    [0, 0, 1, 0],
    [a.x, a.y, 0, 1],
  ];
  return "matrix3d(" + columns.flat().join(",") + ")";
}

/* Return the bounding box of a cloud without outliers, such as points scanned through a window. */
function withoutStrays({ attributes: { position }, boundingBox }) {
  const box = boundingBox.clone(), step = Math.max(1, Math.floor(position.count / STRAY_SAMPLES));
  for (const axis of ["x", "y"]) {
    const get = axis === "x" ? (index) => position.getX(index) : (index) => position.getY(index);
    const values = Float32Array.from({ length: Math.ceil(position.count / step) }, (_, place) => get(place * step)).sort();
    box.min[axis] = values[Math.floor(STRAY_SHARE * (values.length - 1))];
    box.max[axis] = values[Math.ceil((1 - STRAY_SHARE) * (values.length - 1))];
  }
  return box;
}

class View3D {
  constructor(root, data, object, cut) {
    this.root = root;
    this.data = data;
    this.cut = cut;
    this.stage = root.querySelector(".stage");
    this.images = [];
    this.turn = 0;
    this.renderer = new WebGLRenderer({ antialias: true });
    this.renderer.outputColorSpace = LinearSRGBColorSpace;
    this.renderer.localClippingEnabled = true;
    this.renderer.setPixelRatio(Math.min(2, window.devicePixelRatio));
    this.canvas = this.renderer.domElement;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "The scan in 3D, with the camera's path and the views that were taken");
    this.stage.prepend(this.canvas);
    this.scene = new Scene();
    this.scene.background = new Color(0xd8dbe0);
    this.camera = new PerspectiveCamera(60, 1, 0.02, 500);
    this.camera.up.set(0, 0, 1);
    this.controls = new OrbitControls(this.camera, this.canvas);
    this.controls.addEventListener("change", () => this.draw());
    this.scene.add(object);
    this.object = object;
    if (!object.geometry.boundingBox) object.geometry.computeBoundingBox();
    this.bounds = object.isPoints ? withoutStrays(object.geometry) : object.geometry.boundingBox;
    this.reach = Math.max(this.bounds.max.x - this.bounds.min.x, this.bounds.max.y - this.bounds.min.y);
    this.far = Math.min(1, FRUSTUM_SHARE * this.reach);
    this.add();
    this.bind();
    this.overview();
    this.go(0);
  }

  add() {
    const { turns, boxes } = this.data;
    this.boxes = boxes.map(box);
    this.frustums = turns.map((turn) => turn.views.map((view) => frustum(view, this.far)));
    this.path = lines(turns.map((turn) => vector(turn.position)), COLOURS.path, Line);
    this.marker = new Mesh(new SphereGeometry(Math.min(MARKER_METRES, this.far / 10)), new MeshBasicMaterial({ color: COLOURS.now }));
    this.scene.add(...this.boxes, ...this.frustums.flat(), this.path, this.marker);
  }

  bind() {
    const { root, data } = this, $ = (name) => root.querySelector(name);
    this.slider = $("[name=turn]");
    this.slider.max = data.turns.length - 1;
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    $("[name=before]").addEventListener("click", () => this.go(this.turn - 1));
    $("[name=after]").addEventListener("click", () => this.go(this.turn + 1));
    $("[name=film]").addEventListener("click", (event) => this.film(event.target));
    $("[name=above]").addEventListener("click", () => this.overview());
    $("[name=stand]").addEventListener("click", () => this.stand());
    const large = $("[name=large]");
    large.hidden = !document.fullscreenEnabled;
    large.addEventListener("click", () =>
      (document.fullscreenElement ? document.exitFullscreen() : root.requestFullscreen()).catch(() => {}));
    this.height = $("[name=cut]");
    this.height.min = this.bounds.min.z;
    this.height.max = this.bounds.max.z + Number(this.height.step);
    this.height.addEventListener("input", () => this.cutAt(Number(this.height.value)));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("changed", () => this.renew(JSON.parse(root.dataset.view)));
    new ResizeObserver(() => this.fit()).observe(this.stage);
    this.fit();
  }

  /* Redraw the question with its latest turns. */
  renew(data) {
    const last = this.turn === this.data.turns.length - 1;
    this.scene.remove(...this.boxes, ...this.frustums.flat(), this.path, this.marker);
    this.data = data;
    this.add();
    this.slider.max = data.turns.length - 1;
    this.go(last ? data.turns.length - 1 : this.turn);
  }

  cutAt(height) {
    this.height.value = this.cut.constant = height;
    this.root.querySelector("output").textContent = `${height.toFixed(1)} m`;
    this.draw();
  }

  fit() {
    const { clientWidth: width, clientHeight: height } = this.stage;
    if (!width || !height) return;
    this.renderer.setSize(width, height, false);
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.draw();
  }

  /* Show the whole scan obliquely from above. */
  overview() {
    const { min, max } = this.bounds, middle = min.clone().add(max).multiplyScalar(0.5);
    const tall = Math.min(max.z, this.data.cut) - min.z;
    const reach = Math.max(this.reach, TALL_SHARE * tall, 2);
    this.cutAt(Math.min(this.bounds.max.z, this.data.cut));
    this.controls.maxPolarAngle = Math.PI / 2; // from above, never through the floor
    this.controls.target.copy(middle);
    this.camera.fov = 60;
    this.camera.position.copy(middle).add(new Vector3(0, -0.45 * reach, 0.95 * reach));
    this.camera.updateProjectionMatrix();
    this.controls.update();
    this.draw();
  }

  /* Fly to the pose of the turn's last view; for an around view, look ahead. */
  stand() {
    const turn = this.data.turns[this.turn], last = turn.views[turn.views.length - 1];
    const view = last ? turn.views.find(({ file }) => file === last.file) : turn;
    const from = this.camera.position.clone(), to = vector(view.position);
    const was = this.controls.target.clone(), looks = to.clone().addScaledVector(vector(view.forward), 0.5);
    const fov = this.camera.fov, began = performance.now();
    this.controls.maxPolarAngle = Math.PI; // it may have looked up
    this.cutAt(Number(this.height.max));
    const still = window.matchMedia("(prefers-reduced-motion: reduce)").matches;
    const step = (now) => {
      const share = still ? 1 : Math.min(1, (now - began) / (1000 * FLY_SECONDS));
      this.camera.position.lerpVectors(from, to, share);
      this.controls.target.lerpVectors(was, looks, share);
      this.camera.fov = fov + (view.fov - fov) * share;
      this.camera.updateProjectionMatrix();
      this.controls.update();
      if (share < 1) requestAnimationFrame(step);
      else this.draw();
    };
    step(began);
  }

  film(button) {
    const playing = this.timer !== undefined;
    if (playing) clearInterval(this.timer);
    else if (this.turn === this.data.turns.length - 1) this.go(0);
    this.timer = playing ? undefined : setInterval(() => {
      this.go(this.turn + 1);
      if (this.turn === this.data.turns.length - 1) this.film(button);
    }, 1000 * FILM_SECONDS);
    button.textContent = playing ? "Play" : "Stop";
  }

  key(event) {
    const letter = event.key.toLowerCase(), turn = { q: 1, e: -1 }[letter];
    const walk = { w: [1, 0], s: [-1, 0], a: [0, 1], d: [0, -1] }[letter];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "ArrowLeft") this.go(this.turn - 1);
    else if (event.key === "ArrowRight") this.go(this.turn + 1);
    else if (walk) this.walk(...walk);
    else if (turn) this.look(turn);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  walk(ahead, left) {
    const forward = this.controls.target.clone().sub(this.camera.position).setZ(0).normalize();
    const move = forward.clone().multiplyScalar(ahead).add(new Vector3(-forward.y, forward.x, 0).multiplyScalar(left));
    this.camera.position.addScaledVector(move, STEP_METRES);
    this.controls.target.addScaledVector(move, STEP_METRES);
    this.controls.update();
  }

  /* Turn in place; `way` 1 turns left. */
  look(way) {
    const ahead = this.controls.target.clone().sub(this.camera.position);
    ahead.applyAxisAngle(this.camera.up, (way * TURN_DEGREES * Math.PI) / 180);
    this.controls.target.copy(this.camera.position).add(ahead);
    this.controls.update();
  }

  /* Show a turn: its camera, its views, and what had been seen so far. */
  go(number) {
    const { turns, boxes } = this.data;
    this.turn = Math.max(0, Math.min(turns.length - 1, number));
    const turn = turns[this.turn], past = turns.slice(0, this.turn + 1);
    const known = (name) => new Set(past.flatMap((entry) => entry[name]));
    const well = known("well"), seen = known("seen");
    const states = boxes.map((_, index) => (well.has(index) ? "well" : seen.has(index) ? "seen" : "never"));
    this.boxes.forEach((lines, index) => lines.paint(COLOURS[states[index]]));
    this.frustums.forEach((own, index) => own.forEach((lines) => {
      const now = index === this.turn;
      lines.visible = index <= this.turn;
      lines.paint(now ? COLOURS.now : COLOURS.other, now ? 1 : 0.45);
    }));
    this.path.geometry.setDrawRange(0, this.turn + 1);
    this.marker.position.copy(vector(turn.position));
    this.slider.value = this.turn;
    this.root.querySelector(".turn-number").textContent = `${this.data.step} ${turn.number}${this.data.step === "Turn" ? ` of ${turns.length}` : ""}`;
    this.root.querySelector(".said").textContent = turn.said;
    this.root.querySelector(".happened").textContent = turn.happened;
    this.root.querySelector(".boxes").replaceChildren(...boxes.map(({ name }, index) => {
      const told = document.createElement("span");
      told.className = states[index];
      told.textContent = `${name}: ${SEEN_WORDS[states[index]]}`;
      return told;
    }));
    while (this.images.length < turn.views.length) this.images.push(this.hung());
    this.images.forEach((image, index) => {
      if (turn.views[index]) image.src = turn.views[index].file;
    });
    this.draw();
  }

  draw() {
    if (this.waiting) return;
    this.waiting = requestAnimationFrame(() => {
      this.waiting = undefined;
      if (this.object.prepare) this.object.prepare(this.renderer, this.camera);
      this.renderer.render(this.scene, this.camera);
      this.lay();
      this.root.dataset.drawn = Number(this.root.dataset.drawn || 0) + 1;
    });
  }

  /* Return an image element to overlay on a frustum; pages opened from disk cannot use images as textures. */
  hung() {
    const image = document.createElement("img");
    image.alt = "";
    [image.width, image.height] = this.data.size;
    this.stage.append(image);
    return image;
  }

  /* Overlay the images of the turn's views on their frustums, nearest on top. */
  lay() {
    const { clientWidth: width, clientHeight: height } = this.stage, { views } = this.data.turns[this.turn];
    this.images.forEach((image, index) => {
      const view = views[index], corners = view ? picture(view, this.far) : [];
      const away = corners.length ? corners[0].distanceTo(this.camera.position) + corners[2].distanceTo(this.camera.position) : 0;
      corners.forEach((corner) => corner.project(this.camera));
      image.hidden = !corners.length || corners.some((corner) => Math.abs(corner.z) >= 1);
      if (image.hidden) return;
      const screen = corners.map(({ x, y }) => ({ x: ((x + 1) / 2) * width, y: ((1 - y) / 2) * height }));
      const [left, top, wide, high] = view.part, [across, down] = this.data.size;
      image.style.transform = `${laidOver(wide, high, screen)} translate(${-left}px, ${-top}px)`;
      image.style.clipPath = `inset(${top}px ${across - left - wide}px ${down - top - high}px ${left}px)`;
      image.style.zIndex = Math.round(1e6 / (1 + away));
    });
  }
}

window.RenderAgentView3D = async function (root, data, received) {
  const cut = new Plane(new Vector3(0, 0, -1), data.cut);
  return new View3D(root, data, await scan(received, cut), cut);
};
