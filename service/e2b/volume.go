package e2b

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"wolffia/ops/stream"
	"wolffia/runtime"
	"wolffia/service"
	"wolffia/service/e2b/fault"
	"wolffia/service/gate"
	"wolffia/service/quota"
	"wolffia/service/registry"
	"wolffia/volume"
)

// Volumes are the volumes that requests make and fill. All of it is safe for concurrent use.
type Volumes struct {
	Store *volume.Store
	// Make makes a volume for the sandboxes that requests create.
	Make func(ctx context.Context, name string) error
	// Allowed reports whether requests may use them now.
	Allowed func() bool
}

// volumeToken is the purpose of the tokens of volumes, by their ids.
const volumeToken = "e2b volume"

// The bounds of volumes.
const (
	maxVolumes    = 100     // of an owner without a quota
	maxVolumeName = 40      // bytes
	maxMounts     = 16      // of a sandbox
	maxVolumeFile = 5 << 30 // bytes
)

// A volumeMount is a volume in a sandbox.
type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

// A volumeReply is a volume on the wire.
type volumeReply struct {
	ID     string `json:"volumeID"`
	Name   string `json:"name"`
	Token  string `json:"token,omitempty"`
	Domain string `json:"domain,omitempty"`
}

// The id of a volume is its name in the store: prefix, the owner's digest, a dash, and its name.
const (
	volumePrefix = "e2b-"
	ownerDigits  = 16
)

// volumesOf returns what the ids of an owner's volumes begin with: two owners share none.
func volumesOf(o registry.Owner) string {
	text, _ := json.Marshal(o) // never fails: it has texts
	sum := sha256.Sum256(text)
	return volumePrefix + hex.EncodeToString(sum[:])[:ownerDigits] + "-"
}

// volumeName returns the name of a volume by its id, if the caller may use it.
func volumeName(c service.Caller, id string) (name string, ok bool) {
	if c.All {
		rest, is := strings.CutPrefix(id, volumePrefix)
		digits, name, dashed := strings.Cut(rest, "-")
		return name, is && dashed && len(digits) == ownerDigits
	}
	return strings.CutPrefix(id, volumesOf(c.Owner))
}

// owner returns the owner of what a caller makes.
func owner(c service.Caller) registry.Owner {
	if c.All {
		return registry.Owner{}
	}
	return c.Owner
}

// mayVolumes returns an error unless requests may use volumes.
func (h *Handler) mayVolumes() error {
	if h.volumes == nil || !h.volumes.Allowed() {
		return fault.Unsupported(noVolumes)
	}
	return nil
}

// newVolume serves POST /volumes.
func (h *Handler) newVolume(w http.ResponseWriter, r *http.Request) error {
	var req volumeMount
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	if err := h.mayVolumes(); err != nil {
		return err
	}
	if len(req.Name) > maxVolumeName || !isVolumeName(req.Name) {
		return fault.Invalid("name %.100q: it must have letters, digits, - and _, at most %d", req.Name, maxVolumeName)
	}
	o := owner(service.CallerOf(r.Context()))
	id := volumesOf(o) + req.Name
	h.making.Lock() // two requests make no volume twice, and none too many
	defer h.making.Unlock()
	if v, err := h.volumes.Store.Content(id); err == nil {
		_ = v.Close()
		return fault.New(http.StatusConflict, "volume "+req.Name+" exists already")
	}
	entries, err := h.volumes.Store.List()
	if err != nil && len(entries) == 0 {
		return err
	}
	has := 0
	for _, e := range entries {
		if strings.HasPrefix(e.Name, volumesOf(o)) {
			has++
		}
	}
	if err := quota.Full(quota.Party{Owner: o}, "volumes", has, cmp.Or(service.QuotaOf(h.service, o).Volumes, maxVolumes)); err != nil {
		return err
	}
	if err := h.volumes.Make(r.Context(), id); err != nil {
		return err
	}
	h.reply(w, http.StatusCreated, h.volumeReply(r, id, req.Name))
	return nil
}

func isVolumeName(s string) bool {
	other := func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && c != '-' && c != '_'
	}
	return s != "" && !strings.ContainsFunc(s, other)
}

func (h *Handler) volumeReply(r *http.Request, id, name string) volumeReply {
	return volumeReply{id, name, tokenOf(h.service, id, service.CallerOf(r.Context()).Key), domainOf(r.Host)}
}

// tokenOf returns the token of a volume. It names the API key that has asked for it, so that what is
// done with it counts for that.
func tokenOf(s *service.Service, id, key string) string {
	return s.Token(volumeToken, id+"/"+key) + "." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// keyOf returns the key that a token of a volume names; ok is false if it is not one.
func keyOf(s *service.Service, token, id string) (key string, ok bool) {
	mac, name, _ := strings.Cut(token, ".")
	text, err := base64.RawURLEncoding.DecodeString(name)
	return string(text), err == nil && s.IsToken(mac, volumeToken, id+"/"+string(text))
}

// listVolumes serves GET /volumes.
func (h *Handler) listVolumes(w http.ResponseWriter, r *http.Request) error {
	if err := h.mayVolumes(); err != nil {
		return err
	}
	entries, err := h.volumes.Store.List()
	if err != nil && len(entries) == 0 {
		return err
	}
	all := []volumeReply{}
	for _, e := range entries {
		if name, ok := volumeName(service.CallerOf(r.Context()), e.Name); ok {
			all = append(all, volumeReply{ID: e.Name, Name: name})
		}
	}
	h.reply(w, http.StatusOK, all)
	return nil
}

// volumeOf returns the volume that a request of the control API names, open.
func (h *Handler) volumeOf(r *http.Request) (id, name string, v *volume.Content, err error) {
	if err = h.mayVolumes(); err != nil {
		return "", "", nil, err
	}
	id = r.PathValue("id")
	name, ok := volumeName(service.CallerOf(r.Context()), id)
	if ok {
		v, err = h.volumes.Store.Content(id)
	}
	if !ok || err != nil {
		return "", "", nil, fault.New(http.StatusNotFound, "volume "+strconv.Quote(id)+" not found")
	}
	return id, name, v, nil
}

// getVolume serves GET /volumes/{id}.
func (h *Handler) getVolume(w http.ResponseWriter, r *http.Request) error {
	id, name, v, err := h.volumeOf(r)
	if err != nil {
		return err
	}
	_ = v.Close()
	h.reply(w, http.StatusOK, h.volumeReply(r, id, name))
	return nil
}

// removeVolume serves DELETE /volumes/{id}.
func (h *Handler) removeVolume(w http.ResponseWriter, r *http.Request) error {
	id, _, v, err := h.volumeOf(r)
	if err != nil {
		return err
	}
	_ = v.Close()
	if err := h.volumes.Store.Remove(r.Context(), id); err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

// mount returns a function that gives a sandbox of an owner the volumes that a request names; nil:
// none.
func (h *Handler) mount(asked []volumeMount, o registry.Owner) (func(*runtime.SandboxConfig) error, error) {
	if len(asked) == 0 {
		return nil, nil
	}
	if err := h.mayVolumes(); err != nil {
		return nil, err
	}
	if len(asked) > maxMounts {
		return nil, fault.Invalid("volumeMounts: the most are %d", maxMounts)
	}
	mounts := make([]runtime.VolumeMount, 0, len(asked))
	for _, m := range asked {
		id := volumesOf(o) + m.Name
		v, err := h.volumes.Store.Content(id)
		if err != nil || !isVolumeName(m.Name) {
			return nil, fault.Invalid("volumeMounts: volume %.100q not found", m.Name)
		}
		_ = v.Close()
		if !path.IsAbs(m.Path) || path.Clean(m.Path) == "/" {
			return nil, fault.Invalid("volumeMounts: path %.200q: it must be absolute, and below /", m.Path)
		}
		mounts = append(mounts, runtime.VolumeMount{Name: id, Target: path.Clean(m.Path)})
	}
	return func(c *runtime.SandboxConfig) error {
		c.Volumes = append(c.Volumes[:len(c.Volumes):len(c.Volumes)], mounts...)
		return nil
	}, nil
}

// A fileReply is a file of a volume.
type fileReply struct {
	Name     string    `json:"name"`
	Type     string    `json:"type"`
	Path     string    `json:"path"`
	Size     int64     `json:"size"`
	Mode     uint32    `json:"mode"`
	UID      int       `json:"uid"`
	GID      int       `json:"gid"`
	Accessed time.Time `json:"atime"`
	Modified time.Time `json:"mtime"`
	Changed  time.Time `json:"ctime"`
	Target   string    `json:"target,omitempty"`
}

func fileReplyOf(i *volume.Info) fileReply {
	return fileReply{
		path.Base(i.Path), i.Type, i.Path, i.Size, i.Mode, i.UID, i.GID, i.Accessed, i.Modified, i.Changed, i.Target,
	}
}

// A contentCall serves a request about a path of a volume.
type contentCall func(h *Handler, w http.ResponseWriter, r *http.Request, v *volume.Content, q url.Values) error

var contentCalls = map[string]contentCall{
	"GET dir": listFiles, "POST dir": makeDir,
	"GET path": fileInfo, "PATCH path": changeFile, "DELETE path": removeFile,
	"GET file": readFile, "PUT file": writeFile,
}

// content serves /volumecontent/{id}/..., for who has the token of the volume.
func (h *Handler) content(w http.ResponseWriter, r *http.Request) error {
	if err := h.mayVolumes(); err != nil {
		return err
	}
	rest := strings.TrimPrefix(r.URL.Path, "/volumecontent/")
	id, what, _ := strings.Cut(rest, "/")
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	key, ok := keyOf(h.service, token, id)
	if !ok || !strings.HasPrefix(id, volumePrefix) {
		return fault.New(http.StatusUnauthorized, "Authorization: the request needs the token of the volume")
	}
	if err := h.service.AdmitRequest(service.Caller{Key: key}); err != nil {
		return err
	}
	do := contentCalls[r.Method+" "+what]
	if do == nil {
		return unknown(h, w, r)
	}
	q, err := gate.Query(r)
	if err != nil {
		return err
	}
	v, err := h.volumes.Store.Content(id)
	if err != nil {
		return err
	}
	defer v.Close()
	for name, has := range map[string]int{"uid": v.UID(), "gid": v.GID()} {
		if text := q.Get(name); text != "" && text != strconv.Itoa(has) {
			return fault.Invalid("%s %.20q: all files of the volume are of %d: leave it out", name, text, has)
		}
	}
	return do(h, w, r, v, q)
}

// numberOf returns a number of a query.
func numberOf(q url.Values, name string, byDefault uint32) (uint32, error) {
	text := q.Get(name)
	if text == "" {
		return byDefault, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil {
		return 0, fault.Invalid("%s %.20q: it must be a number", name, text)
	}
	return uint32(n), nil
}

// tell answers with what is at a path.
func (h *Handler) tell(w http.ResponseWriter, status int, v *volume.Content, at string) error {
	i, err := v.Info(at)
	if err == nil {
		h.reply(w, status, fileReplyOf(i))
	}
	return err
}

func listFiles(h *Handler, w http.ResponseWriter, _ *http.Request, v *volume.Content, q url.Values) error {
	depth, err := numberOf(q, "depth", 1)
	if err != nil {
		return err
	}
	found, err := v.List(q.Get("path"), int(depth))
	if err != nil {
		return err
	}
	all := make([]fileReply, 0, len(found))
	for _, i := range found {
		all = append(all, fileReplyOf(i))
	}
	h.reply(w, http.StatusOK, all)
	return nil
}

func makeDir(h *Handler, w http.ResponseWriter, _ *http.Request, v *volume.Content, q url.Values) error {
	mode, err := numberOf(q, "mode", 0)
	if err == nil {
		err = v.MakeDir(q.Get("path"), mode, q.Get("force") == "true")
	}
	if err != nil {
		return err
	}
	return h.tell(w, http.StatusCreated, v, q.Get("path"))
}

func fileInfo(h *Handler, w http.ResponseWriter, _ *http.Request, v *volume.Content, q url.Values) error {
	return h.tell(w, http.StatusOK, v, q.Get("path"))
}

func changeFile(h *Handler, w http.ResponseWriter, r *http.Request, v *volume.Content, q url.Values) error {
	var req struct {
		UID  *int    `json:"uid"`
		GID  *int    `json:"gid"`
		Mode *uint32 `json:"mode"`
	}
	if err := h.decode(w, r, &req); err != nil {
		return err
	}
	if req.UID != nil && *req.UID != v.UID() || req.GID != nil && *req.GID != v.GID() {
		return fault.Invalid("uid, gid: all files of the volume are of %d and %d: leave them out", v.UID(), v.GID())
	}
	if req.Mode != nil {
		if err := v.SetMode(q.Get("path"), *req.Mode); err != nil {
			return err
		}
	}
	return h.tell(w, http.StatusOK, v, q.Get("path"))
}

func removeFile(h *Handler, w http.ResponseWriter, _ *http.Request, v *volume.Content, q url.Values) error {
	if err := v.Remove(q.Get("path")); err != nil {
		return err
	}
	h.reply(w, http.StatusNoContent, nil)
	return nil
}

func readFile(h *Handler, w http.ResponseWriter, r *http.Request, v *volume.Content, q url.Values) error {
	f, err := v.Read(q.Get("path"))
	if err != nil {
		return err
	}
	defer f.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(&stream.Patient{ResponseWriter: w, Limit: h.opts.WriteLimit}, r, "", time.Time{}, f)
	return nil
}

func writeFile(h *Handler, w http.ResponseWriter, r *http.Request, v *volume.Content, q url.Values) error {
	mode, err := numberOf(q, "mode", 0)
	if err != nil {
		return err
	}
	body := &stream.Body{ReadCloser: r.Body, Control: http.NewResponseController(w), Limit: h.opts.BodyLimit}
	how := &volume.NewFile{Mode: mode, Parents: q.Get("force") == "true", Most: maxVolumeFile}
	err = v.Write(q.Get("path"), body, how)
	if errors.Is(err, io.ErrUnexpectedEOF) { // the client has gone
		return fault.Invalid("the request's body cannot be read to its end")
	}
	if err != nil {
		return err
	}
	return h.tell(w, http.StatusCreated, v, q.Get("path"))
}
