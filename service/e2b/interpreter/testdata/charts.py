"""Draws charts by E2B's SDK for Python in a sandbox with IPython and matplotlib: charts.py ID ENVD-TOKEN TRAFFIC-TOKEN."""
import sys

from e2b_code_interpreter import Sandbox
from e2b import ConnectionConfig
from packaging.version import Version

box, envd, traffic = sys.argv[1:]
s = Sandbox(
    sandbox_id=box, envd_version=Version('0.6.13'), envd_access_token=envd, sandbox_domain=None,
    connection_config=ConnectionConfig(api_key='x'), traffic_access_token=traffic,
)


def run(code):
    e = s.run_code(code, timeout=120)
    assert not e.error, e.error
    return e


# IPython runs the cells: magics, its display, the value of a cell.
assert run('get_ipython().__class__.__name__').text == 'Shell'
assert run('%timeit -n1 -r1 pass').logs.stdout
assert run('x = 1\nx + 1').text == '2' and run('_ + 1').text == '3'
assert run('%%bash\necho magic').logs.stdout == ['magic\n']
assert run('from IPython.display import HTML, display; display(HTML("<b>b</b>")); HTML("<i>i</i>")').results[0].html == '<b>b</b>'
assert run('await __import__("asyncio").sleep(0, "slept")').text == 'slept'
failed = s.run_code('1/0')
assert (failed.error.name, failed.error.value) == ('ZeroDivisionError', 'division by zero') and '1/0' in failed.error.traceback
assert s.run_code('def f(:').error.name == 'SyntaxError'
assert s.run_code('raise SystemExit(3)').error.name == 'SystemExit' and run('x').text == '1'

# A table.
table = run('import pandas as pd; pd.DataFrame({"a": [1, 2], "b": ["x", "y"]})').results[0]
assert table.data == {'a': [1, 2], 'b': ['x', 'y']} and '<table' in table.html and table.is_main_result, table

# Charts: each has a picture, its type and its data.
BEGIN = 'import matplotlib.pyplot as plt, numpy as np\nplt.title("T"); plt.xlabel("X"); plt.ylabel("Y")\n'


def chart(code, show='plt.show()'):
    results = [r for r in run(BEGIN + code + '\n' + show).results if r.png]
    assert len(results) == 1, results
    assert results[0].png.startswith('iVBOR')
    return results[0].chart


line = chart('plt.plot([1, 2, 3], [4, 5, 6], label="L"); plt.plot([1, 2], [3, 4], label="M")')
assert (line.type.value, line.title, line.x_label, line.y_label) == ('line', 'T', 'X', 'Y'), line
assert [(e.label, [list(map(float, p)) for p in e.points]) for e in line.elements] == [('L', [[1, 4], [2, 5], [3, 6]]), ('M', [[1, 3], [2, 4]])], line
scatter = chart('plt.scatter([1, 2], [3, 4], label="S")')
assert scatter.type.value == 'scatter' and len(scatter.elements[0].points) == 2, scatter
bar = chart('plt.bar(["a", "b"], [1, 2])')
assert bar.type.value == 'bar' and [(e.label, e.value) for e in bar.elements] == [('a', '1'), ('b', '2')] or [(e.label, float(e.value)) for e in bar.elements] == [('a', 1), ('b', 2)], bar
pie = chart('plt.pie([1, 3], labels=["a", "b"])')
assert pie.type.value == 'pie' and [(e.label, round(e.angle)) for e in pie.elements] == [('a', 90), ('b', 270)], pie
assert chart('plt.boxplot([[1, 2, 3, 4, 5], [2, 3, 4]])').x_ticks == [1, 2]  # which are numpy's
box = chart('plt.boxplot([[1, 2, 3, 4, 5], [2, 3, 4]], patch_artist=True)')
assert box.type.value == 'box_and_whisker' and [e.median for e in box.elements] == [3, 3], box
assert chart('plt.plot([1, 2], [1, 10]); plt.yscale("log")').y_scale.value == 'log'
dates = chart('import datetime\nplt.plot([datetime.date(2026, 1, d) for d in (1, 2)], [1, 2])')
assert dates.x_scale.value == 'datetime' and dates.elements[0].points[0][0].startswith('2026-01-01'), dates
two = chart('plt.close()\nfig, (a, b) = plt.subplots(1, 2)\na.plot([1], [2]); b.bar(["x"], [1])')
assert two.type.value == 'superchart' and [e.type.value for e in two.elements] == ['line', 'bar'], two

# A figure that nobody shows is shown at the end of its cell, once, and one that is the value of a cell.
assert len(run(BEGIN + 'plt.plot([1, 2])').results) >= 1
assert [bool(r.png) for r in run('fig, ax = plt.subplots(); ax.plot([1]); plt.close(fig); fig').results] == [True]
saved = run('from PIL import Image; Image.new("RGB", (2, 2))').results[0]
assert saved.png and saved.is_main_result, saved
