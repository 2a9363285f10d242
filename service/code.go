package service

import "wolffia/ops/code"

// Kernels returns the contexts of code of all sandboxes, and what names the sandbox to them.
func (i *Inside) Kernels() (*code.Kernels, code.Box) {
	return i.service.kernels, code.Box{ID: i.box.ID, Idle: i.box.IdleTimeout}
}

// forget drops what is known of the commands and the kernels of a sandbox that was stopped.
func (s *Service) forget(id string) {
	s.used.forget(id)
	s.kernels.Forget(id)
}
