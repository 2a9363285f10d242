package gvisor_test

import (
	"testing"

	"wolffia/internal/test/shimtest"
)

func TestStatic(t *testing.T) {
	need(t)
	shimtest.Static(t, backend)
}
