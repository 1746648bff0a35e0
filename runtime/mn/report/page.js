// Without this script, a page still works, but lacks three functions. The script shows the values of the curves at the
// pointer's x. It highlights the row of a run in the table together with the curves of the run. It sorts a table by a
// column after a click on the column's head.
'use strict';
const pixelWidth = 560, tipRows = 9;
for (const svg of document.querySelectorAll('svg[data-x]')) {
  const curves = [...svg.querySelectorAll('.curve')].map(group => ({
    name: group.dataset.name, color: group.dataset.color,
    points: group.dataset.values.split(';').filter(text => text).map(text => text.split(','))}));
  const cross = document.createElementNS(svg.namespaceURI, 'path');
  cross.setAttribute('class', 'cross');
  const tip = document.createElement('div');
  tip.className = 'tip';
  const hide = () => { cross.remove(); tip.remove(); };
  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), scale = pixelWidth / box.width;
    const at = (event.clientX - box.left) * scale, height = (event.clientY - box.top) * scale;
    const nearest = points => points.reduce((a, b) => Math.abs(b[0] - at) < Math.abs(a[0] - at) ? b : a);
    const x = nearest(curves.flatMap(curve => curve.points))[0];
    const rows = curves.map(curve => ({...curve, point: nearest(curve.points)}))
      .filter(row => Math.abs(row.point[0] - x) < 12)
      .sort((a, b) => Math.abs(a.point[1] - height) - Math.abs(b.point[1] - height)).slice(0, tipRows)
      .sort((a, b) => a.point[1] - b.point[1]);
    if (!rows.length) return hide();
    cross.setAttribute('d', `M${x} 12V260`);
    svg.append(cross);
    tip.replaceChildren(...[svg.dataset.x + ' ' + rows[0].point[2], ...rows].map(row => {
      const line = document.createElement('div');
      if (typeof row === 'string') { line.textContent = row; return line; }
      const dot = document.createElement('span');
      dot.className = 'dot m' + row.color;
      line.append(dot, row.name + ': ' + row.point[3]);
      return line;
    }));
    svg.parentNode.append(tip);
    const left = event.clientX - box.left, room = box.width - tip.offsetWidth;
    tip.style.left = Math.max(0, left + 16 > room ? Math.min(room, left - tip.offsetWidth - 16) : left + 16) + 'px';
    tip.style.top = svg.offsetTop + Math.min(height / scale + 14, box.height / 2) + 'px';
  });
  svg.addEventListener('pointerleave', hide);
}
for (const row of document.querySelectorAll('tr[data-run]')) {
  const light = on => {
    document.body.classList.toggle('dims', on);
    for (const curve of document.querySelectorAll('.curve')) {
      curve.classList.toggle('lit', on && curve.dataset.run === row.dataset.run);
    }
  };
  row.addEventListener('pointerenter', () => light(true));
  row.addEventListener('pointerleave', () => light(false));
}
for (const head of document.querySelectorAll('.runs thead th')) {
  head.addEventListener('click', () => {
    const body = head.closest('table').tBodies[0], column = head.cellIndex;
    const key = row => row.cells[column].dataset.value ?? row.cells[column].textContent;
    const sign = head.dataset.sign = head.dataset.sign === '1' ? '-1' : '1';
    const rows = [...body.rows].sort((a, b) => sign * (isFinite(key(a)) && isFinite(key(b)) ? key(a) - key(b)
      : key(a).localeCompare(key(b))));
    body.append(...rows);
  });
}
