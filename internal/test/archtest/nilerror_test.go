package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// nilErrors returns the places of a file at which an error is put into another
// error (fmt.Errorf, runtime.Errorf) although it may be nil: the branch is also
// taken for a reason that is not that error, as in
//
//	if err != nil || len(b) == 0 {
//		return fmt.Errorf("read %s: %w", name, err)
//
// which reads "%!w(<nil>)".
func nilErrors(fset *token.FileSet, f *ast.File) []string {
	var found []string
	look := func(body ast.Node, conditions ...ast.Expr) {
		var reasons []ast.Expr
		for _, c := range conditions {
			reasons = append(reasons, disjuncts(c)...)
		}
		for _, name := range comparedToNil(reasons) {
			if slices.ContainsFunc(reasons, func(e ast.Expr) bool { return !impliesError(e, name) }) {
				for _, call := range wraps(body, name) {
					found = append(found, fmt.Sprintf("%s: %s may be nil here", fset.Position(call.Pos()), name))
				}
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			look(n.Body, n.Cond)
		case *ast.SwitchStmt:
			if n.Tag == nil {
				for _, c := range n.Body.List {
					if c, ok := c.(*ast.CaseClause); ok {
						look(&ast.BlockStmt{List: c.Body}, c.List...)
					}
				}
			}
		}
		return true
	})
	return found
}

// disjuncts are the parts of an expression with || between.
func disjuncts(e ast.Expr) []ast.Expr { return parts(e, token.LOR) }

// parts are the operands of an expression that is a chain of op.
func parts(e ast.Expr, op token.Token) []ast.Expr {
	e = ast.Unparen(e)
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == op {
		return append(parts(b.X, op), parts(b.Y, op)...)
	}
	return []ast.Expr{e}
}

// comparedToNil returns the variables that one of the reasons compares: they are
// not nil.
func comparedToNil(reasons []ast.Expr) []string {
	var names []string
	for _, r := range reasons {
		if b, ok := r.(*ast.BinaryExpr); ok && b.Op == token.NEQ {
			x, xok := b.X.(*ast.Ident)
			y, yok := b.Y.(*ast.Ident)
			if xok && yok && y.Name == "nil" && strings.HasSuffix(strings.ToLower(x.Name), "err") {
				names = append(names, x.Name)
			}
		}
	}
	return names
}

// impliesError reports whether an expression is true only if the variable is not
// nil.
func impliesError(e ast.Expr, name string) bool {
	return slices.ContainsFunc(parts(e, token.LAND), func(e ast.Expr) bool {
		switch e := e.(type) {
		case *ast.BinaryExpr:
			return slices.Contains(comparedToNil([]ast.Expr{e}), name)
		case *ast.CallExpr: // errors.Is(err, target), errors.As(err, &target)
			x, ok := e.Fun.(*ast.SelectorExpr)
			return ok && (x.Sel.Name == "Is" || x.Sel.Name == "As") && len(e.Args) > 0 && isIdent(e.Args[0], name)
		}
		return false
	})
}

func isIdent(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// wraps are the calls of Errorf in a branch that have the variable as an
// argument. Branches within are left out: they have reasons of their own.
func wraps(body ast.Node, name string) []*ast.CallExpr {
	var calls []*ast.CallExpr
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt, *ast.SwitchStmt, *ast.FuncLit:
			return false
		case *ast.AssignStmt: // it is another error from here on
			if slices.ContainsFunc(n.Lhs, func(e ast.Expr) bool { return isIdent(e, name) }) {
				ast.Inspect(n, func(n ast.Node) bool { calls = appendWrap(calls, n, name); return true })
				name = ""
				return false
			}
		}
		calls = appendWrap(calls, n, name)
		return true
	})
	return calls
}

func appendWrap(calls []*ast.CallExpr, n ast.Node, name string) []*ast.CallExpr {
	call, ok := n.(*ast.CallExpr)
	if !ok {
		return calls
	}
	if sel, ok := call.Fun.(*ast.SelectorExpr); ok && sel.Sel.Name == "Errorf" && (isIdent(sel.X, "fmt") || isIdent(sel.X, "runtime")) &&
		slices.ContainsFunc(call.Args, func(e ast.Expr) bool { return isIdent(e, name) }) {
		return append(calls, call)
	}
	return calls
}

func TestNilErrorsAreFound(t *testing.T) {
	for _, c := range []struct {
		code string
		want int
	}{
		{`if err != nil || n == 0 { return fmt.Errorf("x: %w", err) }`, 1},
		{`if n == 0 || (err != nil) { return 1, runtime.Errorf(c, "x (%v)", err) }`, 1},
		{`if f, err := open(); err != nil || f == nil || errors.Is(err, io.EOF) { panic(fmt.Errorf("%w", err)) }`, 1},
		{`switch { case err != nil, n == 0: return fmt.Errorf("x: %w", err) }`, 1},
		{`switch { case n == 0: case err != nil || n == 1: err = fmt.Errorf("x: %w", err) }`, 1},
		{`if err != nil { return fmt.Errorf("x: %w", err) }`, 0},
		{`if err != nil || errors.Is(err, io.EOF) && n == 0 { return fmt.Errorf("x: %w", err) }`, 0},
		{`if err != nil || n == 0 { if err != nil { return fmt.Errorf("x: %w", err) }; return errors.New("y") }`, 0},
		{`if err != nil || n == 0 { err = other(); return fmt.Errorf("x: %w", err) }`, 0},
		{`if err != nil || n == 0 { return errors.New("x") }`, 0},
		{`if err != nil && n == 0 { return fmt.Errorf("x: %w", err) }`, 0},
	} {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "x.go", "package x\nfunc f() {\n"+c.code+"\n}", parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		if found := nilErrors(fset, f); len(found) != c.want {
			t.Errorf("%s: %q, want %d", c.code, found, c.want)
		}
	}
}
