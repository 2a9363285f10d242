package e2b

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
)

// maxPage is the largest page of a list, and the default.
const maxPage = 100

// A query is which sandboxes a list has.
type query struct {
	metadata  map[string]string // all must match
	states    []string
	template  string
	after     time.Time
	ascending bool
	limit     int
	cursor    string
}

// queryOf returns what a request asks for.
func queryOf(r *http.Request) (*query, error) {
	values, err := gate.Query(r)
	if err != nil {
		return nil, err
	}
	q := &query{template: values.Get("template"), cursor: values.Get("nextToken"), limit: maxPage}
	q.states = []string{running, paused}
	if q.metadata, err = metadataOf(values.Get("metadata")); err != nil {
		return nil, err
	}
	if text := strings.Join(values["state"], ","); text != "" {
		q.states = strings.Split(text, ",")
	}
	for _, s := range q.states {
		if s != running && s != paused {
			return nil, fault.Invalid("state %q: it must be %s or %s", s, running, paused)
		}
	}
	if text := values.Get("limit"); text != "" {
		if q.limit, err = strconv.Atoi(text); err != nil || q.limit < 1 || q.limit > maxPage {
			return nil, fault.Invalid("limit %q: it must be a number from 1 to %d", text, maxPage)
		}
	}
	if text := values.Get("startedAfter"); text != "" {
		if q.after, err = time.Parse(time.RFC3339, text); err != nil {
			return nil, fault.Invalid("startedAfter %q: it must be a time such as 2026-01-02T15:04:05Z", text)
		}
	}
	switch order := values.Get("order"); order {
	case "asc":
		q.ascending = true
	case "", "desc":
	default:
		return nil, fault.Invalid("order %q: it must be asc or desc", order)
	}
	return q, nil
}

// metadataOf splits the filter by metadata, KEY=VALUE with & between them. Its SDKs have escaped
// each key and value twice, later ones once.
func metadataOf(text string) (map[string]string, error) {
	all := map[string]string{}
	for _, pair := range strings.Split(text, "&") {
		if pair == "" {
			continue
		}
		k, v, _ := strings.Cut(pair, "=")
		for _, part := range []*string{&k, &v} {
			for range 2 {
				plain, err := url.QueryUnescape(*part)
				if err != nil {
					return nil, fault.Invalid("metadata %q: it must be KEY=VALUE, each of them encoded as in a URL", pair)
				}
				*part = plain
			}
		}
		all[k] = v
	}
	return all, nil
}

// has reports whether a sandbox is in the list.
func (q *query) has(b *service.Sandbox) bool {
	for k, v := range q.metadata {
		if has, is := b.Metadata[k]; !is || has != v {
			return false
		}
	}
	return slices.Contains(q.states, stateOf(b)) &&
		(q.template == "" || q.template == templateOf(b)) && !b.CreatedAt.Before(q.after)
}

// place is where a sandbox is in the order of lists, as a text; it is what a page's token is.
func place(b *service.Sandbox) string {
	return strconv.FormatInt(b.CreatedAt.UnixMilli(), 10) + "-" + b.ID
}

// page returns a page of a list, and the token of the next one; empty: it is the last.
func (q *query) page(all []*service.Sandbox) (page []*service.Sandbox, next string) {
	slices.SortFunc(all, func(a, b *service.Sandbox) int {
		if q.ascending {
			a, b = b, a
		}
		return strings.Compare(place(b), place(a))
	})
	for _, b := range all {
		beyond := q.cursor == "" || q.ascending && place(b) > q.cursor || !q.ascending && place(b) < q.cursor
		switch {
		case !beyond || !q.has(b):
		case len(page) == q.limit:
			return page, place(page[len(page)-1])
		default:
			page = append(page, b)
		}
	}
	return page, ""
}

// listSandboxes serves GET /v2/sandboxes.
func (h *Handler) listSandboxes(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	return h.answerList(w, r, q)
}

// listRunning serves GET /sandboxes, which is not paged.
func (h *Handler) listRunning(w http.ResponseWriter, r *http.Request) error {
	q, err := queryOf(r)
	if err != nil {
		return err
	}
	q.states, q.limit = []string{running}, 1<<30
	return h.answerList(w, r, q)
}

func (h *Handler) answerList(w http.ResponseWriter, r *http.Request, q *query) error {
	all, err := h.service.List(r.Context(), service.CallerOf(r.Context()))
	if err != nil {
		return err
	}
	up := 0
	for _, b := range all {
		if stateOf(b) == running {
			up++
		}
	}
	page, next := q.page(all)
	items := []*listedReply{}
	for _, b := range page {
		items = append(items, list(b))
	}
	w.Header().Set("X-Total-Running", strconv.Itoa(up))
	if next != "" {
		w.Header().Set("X-Next-Token", next)
	}
	h.reply(w, http.StatusOK, items)
	return nil
}
