package opensandbox

import (
	"context"
	"net/http"
	"time"

	"wolffia/ops/code"
	"wolffia/ops/stream"
	"wolffia/service"
)

// A codeContext is a kernel of a language, which keeps its state.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
}

// A codeRequest is the body of POST /code. Without an id it is for the default context of the
// language.
type codeRequest struct {
	Code    string      `json:"code"`
	Context codeContext `json:"context"`
}

// contextOf returns the context that a request names.
func contextOf(in *service.Inside, q codeContext) (*code.Context, error) {
	kernels, box := in.Kernels()
	if q.ID == "" {
		return kernels.Default(box, q.Language, "")
	}
	c, err := kernels.Get(box.ID, q.ID)
	return c, commandFault(err)
}

// createContext serves POST /code/context.
func (d *execd) createContext(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	var q codeContext
	if err := d.decode(w, r, smallBody, &q); err != nil {
		return err
	}
	kernels, box := in.Kernels()
	c, err := kernels.Create(r.Context(), box, q.Language, "")
	if err != nil {
		return err
	}
	d.opts.JSON(w, http.StatusOK, codeContext{c.ID, c.Language})
	return nil
}

// contexts returns the contexts of a language; of all if it is empty.
func contexts(in *service.Inside, language string) (found []codeContext) {
	kernels, box := in.Kernels()
	for _, c := range kernels.List(box.ID) {
		if language == "" || c.Language == language {
			found = append(found, codeContext{c.ID, c.Language})
		}
	}
	return found
}

// listContexts serves GET /code/contexts.
func (d *execd) listContexts(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	d.opts.JSON(w, http.StatusOK, append([]codeContext{}, contexts(in, r.URL.Query().Get("language"))...))
	return nil
}

// getContext serves GET /code/contexts/{name}.
func (d *execd) getContext(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	c, err := contextOf(in, codeContext{ID: r.PathValue("name")})
	if err != nil {
		return err
	}
	d.opts.JSON(w, http.StatusOK, codeContext{c.ID, c.Language})
	return nil
}

// removeContext serves DELETE /code/contexts/{name}.
func (d *execd) removeContext(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	kernels, box := in.Kernels()
	if err := kernels.Remove(box.ID, r.PathValue("name")); err != nil {
		return commandFault(err)
	}
	d.empty(w, http.StatusOK)
	return nil
}

// removeContexts serves DELETE /code/contexts.
func (d *execd) removeContexts(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	language := r.URL.Query().Get("language")
	if language == "" {
		return &fault{http.StatusBadRequest, "MISSING_QUERY", "language: the query names none"}
	}
	kernels, box := in.Kernels()
	for _, c := range contexts(in, language) {
		_ = kernels.Remove(box.ID, c.ID) // else another request has removed it
	}
	d.empty(w, http.StatusOK)
	return nil
}

// interruptCode serves DELETE /code, whose id is that of a context, as the first event of a cell
// has it.
func (d *execd) interruptCode(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	id := r.URL.Query().Get("id")
	if id == "" {
		return &fault{http.StatusBadRequest, "MISSING_QUERY", "id: the query has no id of a context"}
	}
	c, err := contextOf(in, codeContext{ID: id})
	if err != nil {
		return err
	}
	c.Interrupt()
	d.empty(w, http.StatusOK)
	return nil
}

// runCode serves POST /code. If the client goes the cell is interrupted.
func (d *execd) runCode(w http.ResponseWriter, r *http.Request, in *service.Inside) error {
	var q codeRequest
	if err := d.decode(w, r, commandBody, &q); err != nil {
		return err
	}
	c, err := contextOf(in, q.Context)
	if err != nil {
		return err
	}
	begin := time.Now()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	s := stream.NewLive(w, d.opts.WriteLimit, pong, cancel)
	defer s.Over()
	var last *event // the error of the cell
	err = c.Run(ctx, code.Cell{Code: q.Code}, func(e *code.Event) error {
		switch e.Type {
		case code.Began:
			return s.Send(event{Type: "init", Text: c.ID}, event{Type: "execution_count", ExecutionCount: e.Count})
		case code.Failed:
			last = &event{Type: "error", Error: &errorEvent{e.Name, e.Value, append([]string{}, e.Traceback...)}}
			return nil
		case code.Result:
			if text, is := e.Data["text/plain"]; is {
				e.Data["text"] = text // which SDKs read
			}
			return s.Send(event{Type: "result", Results: e.Data})
		}
		return s.Send(event{Type: e.Type, Text: e.Text})
	})
	if err != nil && s.Leave() { // nothing was sent
		return commandFault(err)
	}
	ms := time.Since(begin).Milliseconds()
	switch {
	case err != nil:
		f, _ := faultOf(err)
		s.Last(event{Type: "error", Error: &errorEvent{"RuntimeError", f.message, []string{f.message}}})
	case last != nil:
		s.Last(*last)
	default:
		s.Last(event{Type: "execution_complete", ExecutionTime: &ms})
	}
	return nil
}
