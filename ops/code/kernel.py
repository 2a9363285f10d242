# The Python kernel of package code: it reads a cell a line from standard input, and writes frames, a
# line of JSON each, to what was its standard output. What cells write goes to pipes of its own.
import ast, asyncio, base64, codecs, contextlib, importlib.machinery, inspect, io, json, linecache, numbers, os
import re, select, signal, sys, textwrap, threading, time, traceback, types, warnings

control, requests, last = os.dup(1), os.fdopen(os.dup(0), 'rb'), os.dup(2)
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
MOST = 6 << 20  # bytes of a representation
lock, wake, pid = threading.RLock(), threading.Event(), os.getpid()
cell, busy, holds, interrupted = 0, False, 0, False


class hold:
    """Delays an interrupt of the main thread until a frame is whole."""

    def __enter__(self):
        global holds
        if threading.current_thread() is threading.main_thread():
            holds += 1
        lock.acquire()

    def __exit__(self, *_):
        global holds, interrupted
        lock.release()
        if threading.current_thread() is threading.main_thread():
            holds -= 1
            if not holds and interrupted:
                interrupted = False
                if busy:
                    raise KeyboardInterrupt


def on_interrupt(*_):
    global interrupted
    if holds:
        interrupted = True
    elif busy and os.getpid() == pid:
        raise KeyboardInterrupt


def number(value):
    """The JSON of what is a number, such as numpy's, but no int or float."""
    for kind, plain in (numbers.Integral, int), (numbers.Real, float):
        if isinstance(value, kind):
            return plain(value)
    raise TypeError(f'{type(value)} has no JSON')


def send(kind, **more):
    if os.getpid() != pid:
        return
    text = json.dumps({'cell': cell, 'type': kind, **more}, default=number).encode() + b'\n'
    with hold():
        while text:
            text = text[os.write(control, text):]


class Out(io.TextIOWrapper):
    def write(self, text):
        n = super().write(text)
        wake.set()
        return n


def stream(fd):
    r, w = os.pipe()
    os.dup2(w, fd)
    os.close(w)
    os.set_blocking(r, False)
    return r, Out(open(fd, 'wb', closefd=False), encoding='utf-8', errors='backslashreplace')


(out, sys.stdout), (err, sys.stderr) = stream(1), stream(2)
outs, decoder = (sys.stdout, sys.stderr), codecs.getincrementaldecoder('utf-8')
kinds = {out: ('stdout', decoder('replace')), err: ('stderr', decoder('replace'))}


def flush():
    for s in outs:
        with contextlib.suppress(Exception):
            s.flush()


def take(fd):
    """Sends what is in a pipe; false: nothing."""
    with hold():
        try:
            data = os.read(fd, 1 << 15)
        except BlockingIOError:
            return False
        kind, decode = kinds[fd]
        if text := decode.decode(data):
            send(kind, text=text)
        return bool(data)


def pump():
    while True:
        for fd in select.select([out, err], [], [])[0]:
            take(fd)


def flusher():
    while wake.wait():
        wake.clear()
        time.sleep(0.02)  # so that a loop of prints is not a frame for each
        flush()


def encoded(data):
    """The bundle as JSON has it: bytes in base64, without what is too large or not JSON."""
    whole = {}
    for mime, value in data.items():
        if isinstance(value, bytes):
            value = base64.b64encode(value).decode()
        with contextlib.suppress(Exception):
            if len(json.dumps(value, allow_nan=False, default=number)) <= MOST:
                whole[mime] = value
            elif mime == 'text/plain':
                whole[mime] = value[:MOST // 8]
    return whole


METHODS = {
    'text/html': '_repr_html_', 'text/markdown': '_repr_markdown_', 'image/svg+xml': '_repr_svg_',
    'image/png': '_repr_png_', 'image/jpeg': '_repr_jpeg_', 'application/pdf': '_repr_pdf_',
    'text/latex': '_repr_latex_', 'application/json': '_repr_json_',
    'application/javascript': '_repr_javascript_',
}


def plain(value):
    data = {'text/plain': repr(value)}
    if isinstance(value, type):
        return data
    with contextlib.suppress(Exception):
        more = value._repr_mimebundle_()
        data.update(more[0] if isinstance(more, tuple) else more)
    for mime, method in METHODS.items():
        with contextlib.suppress(Exception):
            more = getattr(value, method)()
            more = more[0] if isinstance(more, tuple) else more
            if more is not None:
                data.setdefault(mime, more)
    return data


def extras(value, data):
    """Adds what figures and tables have no method for."""
    of = lambda module, name: isinstance(value, getattr(sys.modules.get(module), name, ()))
    with contextlib.suppress(Exception):
        if of('matplotlib.figure', 'Figure'):
            data['text/plain'] = str(value).replace('Figure(', '<Figure size ').replace(')', '') + (
                f' with {len(value.axes)} Axes>')
            image = io.BytesIO()
            value.savefig(image, format='png', bbox_inches='tight')
            data['image/png'] = image.getvalue()
            from e2b_charts import chart_figure_to_dict
            with warnings.catch_warnings():
                warnings.simplefilter('ignore')  # of its own models
                data['application/vnd.wolffia.chart+json'] = chart_figure_to_dict(value)
    with contextlib.suppress(Exception):
        if of('pandas', 'DataFrame'):
            data['application/vnd.wolffia.data+json'] = {
                str(c): json.loads(value[c].to_json(orient='values', date_format='iso')) for c in value}
    return data


def result(data, main):
    flush()
    while take(out) | take(err):
        pass
    send('result', data=encoded(data), main=main)


def display(*values, **_):
    for value in values:
        result(extras(value, plain(value)), False)


def figures(*_, **__):
    plots = sys.modules.get('matplotlib.pyplot')
    for number in getattr(plots, 'get_fignums', list)():
        show(plots.figure(number))
        plots.close(number)


def failed(e):
    at = e.__traceback__
    while at and not at.tb_frame.f_code.co_filename.startswith('<cell '):
        at = at.tb_next
    send('error', name=type(e).__name__, value=str(e)[:MOST // 8],
         traceback=[line[:MOST // 64] for line in traceback.format_exception(type(e), e, at)[:64]])


class Patches:
    """A finder that changes modules as they are imported."""

    def find_spec(self, name, path=None, target=None):
        patch = {'matplotlib.pyplot': self.pyplot, 'PIL.Image': self.image}.get(name)
        spec = patch and importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec:
            run = spec.loader.exec_module
            spec.loader.exec_module = lambda module: (run(module), patch(module))
        return spec

    def pyplot(self, module):
        module.show = figures

    def image(self, module):
        save = module.Image.save

        def shown(self, to, *args, **named):
            save(self, to, *args, **named)
            if isinstance(to, (str, os.PathLike)):
                show(self)
        module.Image.save, module.Image.show = shown, lambda self, *_, **__: show(self)


def line_magic(match):
    indent, kind, text = match.groups()
    if kind == '!' or text.startswith(('pip ', 'cd ')):
        return f'{indent}__line__({kind + text!r})'
    return match.group()


def run_line(text):
    """What IPython's !COMMAND, %pip and %cd do, without IPython."""
    flush()
    if text.startswith('%cd '):
        os.chdir(os.path.expanduser(text[4:].strip()))
        return
    import subprocess
    subprocess.run(text[1:] if text[0] == '!' else sys.executable + ' -m ' + text[1:], shell=True)


def parse(code, name):
    try:
        return code, ast.parse(code, name)
    except SyntaxError:
        code = re.sub(r'^([ \t]*)([!%])(.+)$', line_magic, textwrap.dedent(code), flags=re.M)
        return code, ast.parse(code, name)


def run(code, count):
    name, value = f'<cell {count}>', None
    code, tree = parse(code, name)
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    end = None
    if tree.body and isinstance(tree.body[-1], ast.Expr) and not code.rstrip().endswith(';'):
        end = ast.Expression(tree.body.pop().value)
    for part, mode in ((tree, 'exec'), (end, 'eval')):
        if not part:
            continue
        compiled = compile(part, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        value = eval(compiled, main.__dict__)
        if compiled.co_flags & inspect.CO_COROUTINE:
            task = loop.create_task(value)
            try:
                value = loop.run_until_complete(task)
            except KeyboardInterrupt:
                task.cancel()
                with contextlib.suppress(BaseException):
                    loop.run_until_complete(task)
                raise
    figures()
    if value is not None:
        main.__dict__['_'] = value
        result(extras(value, plain(value)), True)


def ipython():
    """A function that runs cells by IPython, which has magics and formatters."""
    from IPython.core.displayhook import DisplayHook
    from IPython.core.displaypub import DisplayPublisher
    from IPython.core.formatters import DisplayFormatter
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    class Hook(DisplayHook):
        def write_output_prompt(self): pass
        def finish_displayhook(self): pass
        def write_format_data(self, data, metadata=None): result(data, True)

    class Publisher(DisplayPublisher):
        def publish(self, data, *_, **__): result(data, False)
        def clear_output(self, wait=False): pass

    class Formatter(DisplayFormatter):
        def format(self, value, *args, **named):
            data, metadata = super().format(value, *args, **named)
            return extras(value, data), metadata

    class Shell(InteractiveShell):
        def enable_gui(self, gui=None): pass
        def ask_exit(self): pass
        def _showtraceback(self, kind, value, lines):
            send('error', name=kind.__name__, value=str(value)[:MOST // 8],
                 traceback=[line[:MOST // 64] for line in lines[:64]])

    config = Config()
    config.HistoryManager.enabled = False
    config.InteractiveShell.colors = 'NoColor'
    shell = Shell(config=config, user_module=main, displayhook_class=Hook, display_pub_class=Publisher)
    InteractiveShell._instance = Shell._instance = shell
    shell.display_formatter = Formatter(parent=shell)

    def run(code, count):
        shell.run_cell(code, store_history=True)
        figures()

    from IPython.display import display
    return run, display


def serve(q):
    global cell, busy, interrupted
    cell, interrupted = q['cell'], False
    before = {name: os.environ.get(name) for name in q['env']}
    os.environ.update(q['env'])
    try:
        try:
            busy = True
            if q['cwd']:
                os.chdir(q['cwd'])
            run(q['code'], q['count'])
        finally:
            busy = False
    except BaseException as e:
        busy = False
        failed(e)
    if os.getpid() != pid:  # a child that the cell has forked
        flush()
        os._exit(0)
    for name, value in before.items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    flush()
    for fd in (out, err) * 4:
        take(fd)
    os.write(last, q['mark'].encode())
    send('done')
    cell = 0


main = types.ModuleType('__main__')
main.__dict__.update(__builtins__=__builtins__, display=display, __line__=run_line)
sys.modules['__main__'] = main
sys.path[0] = ''
loop, show = asyncio.new_event_loop(), display
asyncio.set_event_loop(loop)
signal.signal(signal.SIGINT, on_interrupt)
os.register_at_fork(before=flush)
os.environ.setdefault('MPLBACKEND', 'Agg')
sys.meta_path.insert(0, Patches())
for thread in (pump, flusher):
    threading.Thread(target=thread, daemon=True).start()
try:
    run, show = ipython()
except Exception:
    pass
send('ready')
for line in requests:
    serve(json.loads(line))
os._exit(0)
