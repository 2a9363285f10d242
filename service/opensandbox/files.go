package opensandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"strconv"
	"time"

	"wolffia/internal/filecall"
	"wolffia/internal/fileclient"
	"wolffia/ops"
	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
)

// A fileReply describes a file on the wire.
type fileReply struct {
	Path     string    `json:"path"`
	Type     string    `json:"type"`
	Size     int64     `json:"size"`
	Modified time.Time `json:"modified_at"`
	Created  time.Time `json:"created_at"`
	Owner    string    `json:"owner"`
	Group    string    `json:"group"`
	Mode     int       `json:"mode"` // octal digits, as a decimal number: 644
}

func describeFile(i *filecall.Info) fileReply {
	digits, err := strconv.Atoi(strconv.FormatUint(uint64(i.Mode&0o7777), 8))
	if err != nil { // octal digits are decimal ones
		digits = 0
	}
	return fileReply{i.Path, i.Type, i.Size, i.Modified, i.Created, i.Owner, i.Group, digits}
}

// A modeRequest says what mode and owner a file is to have.
type modeRequest struct {
	Mode  int    `json:"mode"` // octal digits, as a decimal number; 0: unchanged
	Owner string `json:"owner"`
	Group string `json:"group"`
}

func (m *modeRequest) mode() (filecall.Mode, error) {
	bits, err := strconv.ParseUint(strconv.Itoa(m.Mode), 8, 12)
	if err != nil {
		return filecall.Mode{}, &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", fmt.Sprintf("mode %d: it must be octal digits, such as 644", m.Mode)}
	}
	return filecall.Mode{Mode: uint32(bits), Owner: m.Owner, Group: m.Group}, nil
}

// fileFault gives the errors of files their codes.
func fileFault(err error) error {
	if errors.As(err, new(*fault)) {
		return err
	}
	switch runtime.Class(err) {
	case runtime.ErrNotFound:
		return &fault{http.StatusNotFound, "FILE_NOT_FOUND", err.Error()}
	case runtime.ErrExists:
		return &fault{http.StatusConflict, "FILE_EXISTS", err.Error()}
	case runtime.ErrInvalid:
		return &fault{http.StatusBadRequest, "INVALID_FILE", err.Error()}
	}
	return err
}

// onFiles returns the function that serves a request about files: make returns the request
// to the sandbox, and answer replies.
func onFiles(
	request func(d *execd, w http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error),
	answer func(d *execd, w http.ResponseWriter, r *http.Request, q *filecall.Request, reply *filecall.Reply),
) func(*execd, http.ResponseWriter, *http.Request, *service.Inside) error {
	return func(d *execd, w http.ResponseWriter, r *http.Request, in *service.Inside) error {
		files := in.Files()
		q, err := request(d, w, r, files)
		if err != nil {
			return fileFault(err)
		}
		reply, err := files.Do(r.Context(), q)
		if err != nil {
			return fileFault(err)
		}
		answer(d, w, r, q, reply)
		return nil
	}
}

// paths returns the paths of the query.
func paths(r *http.Request, in *ops.Files) ([]string, error) {
	var all []string
	for _, name := range r.URL.Query()["path"] {
		p, err := in.Path(name)
		if err != nil {
			return nil, err
		}
		all = append(all, p)
	}
	return all, nil
}

// onPaths returns the request about the paths of the query.
func onPaths(op string) func(*execd, http.ResponseWriter, *http.Request, *ops.Files) (*filecall.Request, error) {
	return func(_ *execd, _ http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error) {
		all, err := paths(r, in)
		return &filecall.Request{Op: op, Paths: all}, err
	}
}

// onModes returns the request about the files of the body.
func onModes(op string) func(*execd, http.ResponseWriter, *http.Request, *ops.Files) (*filecall.Request, error) {
	return func(d *execd, w http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error) {
		var body map[string]modeRequest
		if err := d.decode(w, r, smallBody, &body); err != nil {
			return nil, err
		}
		modes, _, err := byPath(in, body)
		if err != nil {
			return nil, err
		}
		q := &filecall.Request{Op: op, Modes: map[string]filecall.Mode{}}
		for p, m := range modes {
			if q.Modes[p], err = m.mode(); err != nil {
				return nil, err
			}
		}
		return q, nil
	}
}

// byPath returns what a client asks for by name, by the absolute path, and the names. It is an error to name a file twice.
func byPath[T any](in *ops.Files, named map[string]T) (all map[string]T, names map[string]string, err error) {
	all, names = map[string]T{}, map[string]string{}
	for name, v := range named {
		p, err := in.Path(name)
		if err != nil {
			return nil, nil, err
		}
		if _, twice := all[p]; twice {
			return nil, nil, &fault{http.StatusBadRequest, "INVALID_REQUEST_BODY", fmt.Sprintf("the request names %s twice", p)}
		}
		all[p], names[p] = v, name
	}
	return all, names, nil
}

// done answers that a request was done.
func done(d *execd, w http.ResponseWriter, _ *http.Request, _ *filecall.Request, _ *filecall.Reply) {
	d.empty(w, http.StatusOK)
}

// fileList answers with descriptions.
func fileList(d *execd, w http.ResponseWriter, _ *http.Request, _ *filecall.Request, reply *filecall.Reply) {
	list := []fileReply{}
	for n := range reply.Infos {
		list = append(list, describeFile(&reply.Infos[n]))
	}
	d.opts.JSON(w, http.StatusOK, list)
}

// fileInfos answers with descriptions by the paths as the client has them.
func fileInfos(d *execd, w http.ResponseWriter, r *http.Request, _ *filecall.Request, reply *filecall.Reply) {
	all := map[string]fileReply{}
	for n, name := range r.URL.Query()["path"] {
		if n < len(reply.Infos) {
			all[name] = describeFile(&reply.Infos[n])
		}
	}
	d.opts.JSON(w, http.StatusOK, all)
}

// listRequest is the request of GET /directories/list.
func listRequest(_ *execd, _ http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error) {
	query := r.URL.Query()
	if query.Get("depth") == "0" { // execd's default
		query.Del("depth")
	}
	depth, err := number(query, "depth", 1, 1000)
	if err != nil {
		return nil, err
	}
	p, err := onePath(r, in)
	return &filecall.Request{Op: filecall.OpList, Path: p, Depth: depth}, err
}

// searchRequest is the request of GET /files/search.
func searchRequest(_ *execd, _ http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error) {
	p, err := onePath(r, in)
	return &filecall.Request{Op: filecall.OpSearch, Path: p, Pattern: r.URL.Query().Get("pattern")}, err
}

// onePath returns the only path of the query.
func onePath(r *http.Request, in *ops.Files) (string, error) {
	all, err := paths(r, in)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", &fault{http.StatusBadRequest, "MISSING_QUERY", "path: the query has no path"}
	case len(all) > 1:
		return "", invalid("path: the query has several paths")
	}
	return all[0], nil
}

// A moveBody renames a file or directory.
type moveBody struct {
	Src  string `json:"src"`
	Dest string `json:"dest"`
}

// moveRequest is the request of POST /files/mv.
func moveRequest(d *execd, w http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error) {
	var body []moveBody
	if err := d.decode(w, r, smallBody, &body); err != nil {
		return nil, err
	}
	q := &filecall.Request{Op: filecall.OpMove}
	for _, m := range body {
		from, err := in.Path(m.Src)
		if err != nil {
			return nil, err
		}
		to, err := in.Path(m.Dest)
		if err != nil {
			return nil, err
		}
		q.Moves = append(q.Moves, filecall.Move{From: from, To: to})
	}
	return q, nil
}

// A replacedReply says how often a text was replaced in a file.
type replacedReply struct {
	Count int `json:"replacedCount"`
}

// replace serves POST /files/replace.
func (d *execd) replace(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	var names map[string]string // as the client has them
	request := func(d *execd, w http.ResponseWriter, r *http.Request, in *ops.Files) (*filecall.Request, error) {
		var body map[string]filecall.Replace
		if err := d.decode(w, r, commandBody, &body); err != nil {
			return nil, err
		}
		q := &filecall.Request{Op: filecall.OpReplace}
		var err error
		q.Replace, names, err = byPath(in, body)
		return q, err
	}
	answer := func(d *execd, w http.ResponseWriter, r *http.Request, q *filecall.Request, reply *filecall.Reply) {
		if verbose, err := strconv.ParseBool(r.URL.Query().Get("verbose")); err != nil || !verbose {
			d.empty(w, http.StatusOK)
			return
		}
		counts := map[string]replacedReply{}
		for p := range q.Replace {
			counts[names[p]] = replacedReply{reply.Counts[p]}
		}
		d.opts.JSON(w, http.StatusOK, counts)
	}
	return onFiles(request, answer)(d, w, r, in)
}

// The bounds of an upload.
const (
	maxMetadata = 64 << 10 // bytes of one
	maxAhead    = 1000     // metadata before their files
)

// upload serves POST /files/upload: parts metadata, which say where the parts file go that
// follow, in the same order.
func (d *execd) upload(w http.ResponseWriter, r *http.Request, of *service.Inside) error {
	in := of.Files()
	body, err := r.MultipartReader()
	if err != nil {
		return &fault{http.StatusBadRequest, "INVALID_FILE", "the request must be multipart/form-data, with parts metadata and file"}
	}
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(10 * d.opts.BodyLimit)) // always supported
	var ahead []fileTarget
	files := 0
	for {
		part, err := body.NextRawPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return uploadFault(err)
		}
		switch part.FormName() {
		case "metadata":
			t, err := target(part, in)
			if err != nil {
				return err
			}
			if ahead = append(ahead, *t); len(ahead) > maxAhead {
				return &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", fmt.Sprintf("more than %d parts metadata before their files", maxAhead)}
			}
		case "file":
			if len(ahead) == 0 {
				return &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", "a part file has no part metadata before it"}
			}
			if err := in.Write(r.Context(), ahead[0].path, ahead[0].mode, part); err != nil {
				return uploadFault(fileFault(err))
			}
			ahead = ahead[1:]
			files++
		default:
			return &fault{http.StatusBadRequest, "INVALID_FILE", "a part is neither metadata nor file"}
		}
	}
	if files == 0 || len(ahead) > 0 {
		return &fault{http.StatusBadRequest, "INVALID_FILE_CONTENT", "a part metadata has no part file"}
	}
	d.empty(w, http.StatusOK)
	return nil
}

// uploadFault gives an error in the form of an upload its code.
func uploadFault(err error) error {
	if runtime.Class(err) != nil || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, new(*fault)) {
		return err
	}
	return &fault{http.StatusBadRequest, "INVALID_FILE_CONTENT", "the request's body cannot be read to its end"}
}

// A fileTarget is a file to be written.
type fileTarget struct {
	path string
	mode filecall.Mode
}

// target reads a part metadata.
func target(part io.Reader, in *ops.Files) (*fileTarget, error) {
	wrong := func(why string) (*fileTarget, error) {
		return nil, &fault{http.StatusBadRequest, "INVALID_FILE_METADATA", "metadata: " + why}
	}
	text, err := io.ReadAll(io.LimitReader(part, maxMetadata+1))
	var m struct {
		Path string `json:"path"`
		modeRequest
	}
	switch {
	case err != nil:
		return nil, uploadFault(err)
	case len(text) > maxMetadata:
		return wrong("too long")
	case json.Unmarshal(text, &m) != nil:
		return wrong("not a JSON object with path, mode, owner and group")
	}
	p, err := in.Path(m.Path)
	if err != nil {
		return wrong(err.Error())
	}
	mode, err := m.mode()
	return &fileTarget{p, mode}, err
}

// download serves GET /files/download.
func (d *execd) download(w http.ResponseWriter, r *http.Request, of *service.Inside) error {
	in := of.Files()
	p, err := onePath(r, in)
	if err != nil {
		return fileFault(err)
	}
	q := r.URL.Query()
	if q.Has("offset") || q.Has("limit") {
		first, err := number(q, "offset", 1, 1<<53)
		if err != nil {
			return err
		}
		most := -1
		if q.Has("limit") {
			if most, err = number(q, "limit", 1, 1<<53); err != nil {
				return err
			}
		}
		part, err := in.Lines(r.Context(), p, int64(first), int64(most))
		if err != nil {
			return fileFault(err)
		}
		defer part.Close()
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		d.send(w, part)
		return nil
	}
	asked := stream.RangeOf(r.Header.Get("Range"))
	part, err := in.Read(r.Context(), p, asked.From, asked.Most)
	if err != nil {
		return fileFault(err)
	}
	defer part.Close()
	if err := stream.BeginFile(w, path.Base(p), asked, part.Start, part.Bytes, part.Size); err != nil {
		return &fault{http.StatusRequestedRangeNotSatisfiable, "INVALID_FILE", err.Error()}
	}
	d.send(w, part)
	return nil
}

// send sends a part of a file. If it ends early, the connection is closed, so that the
// client does not take what it has for all of it.
func (d *execd) send(w http.ResponseWriter, part *fileclient.Part) {
	n, err := io.CopyBuffer(d.patient(w), struct{ io.Reader }{part}, make([]byte, 256<<10))
	if err != nil || part.Bytes >= 0 && n < part.Bytes {
		panic(http.ErrAbortHandler)
	}
}
