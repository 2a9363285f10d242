package envd

// Watchers returns how many watchers a sandbox has.
func (h *Handler) Watchers(id string) int {
	r := h.rooms.enter(id)
	defer h.rooms.exit(r)
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.watchers)
}
