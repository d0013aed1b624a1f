package schema

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/ast"
	"cel.dev/cel-go/common/operators"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

// wanted says which static types an expression may have. What is only known per record
// (dyn) is always allowed and checked then.
type wanted struct {
	kinds []types.Kind // nil = any
	what  string
}

var (
	wantAny  = wanted{}
	wantBool = wanted{[]types.Kind{types.BoolKind}, "a bool"}
	wantTime = wanted{[]types.Kind{types.TimestampKind, types.IntKind}, "a timestamp, or an int of milliseconds"}
	wantEach = wanted{[]types.Kind{types.ListKind, types.MapKind}, "a list or an object"}
	wantPart = wanted{[]types.Kind{types.StringKind, types.BytesKind, types.IntKind, types.UintKind, types.DoubleKind, types.BoolKind}, "text, a number or a bool (date() and reverseMillis() make text of a timestamp)"}
)

func (w wanted) allows(t *types.Type) bool {
	if t.Kind() == types.OpaqueKind && t.TypeName() == "optional_type" && len(t.Parameters()) == 1 {
		t = t.Parameters()[0]
	}
	switch t.Kind() {
	case types.DynKind, types.AnyKind, types.ErrorKind, types.TypeParamKind:
		return true
	}
	if w.kinds == nil {
		return t.Kind() != types.DurationKind && t.Kind() != types.TypeKind && t.Kind() != types.OpaqueKind
	}
	for _, k := range w.kinds {
		if t.Kind() == k {
			return true
		}
	}
	return false
}

// expr compiles text, which begins at byte offset off of s. It returns nil after a problem.
func (c *compiler) expr(s *scalar, off int, text string, sc scope, w wanted) evaluator {
	x := &exprCompiler{c: c, s: s, off: off, text: text, sc: sc, env: c.env(sc)}
	return x.compile(w)
}

// sourced compiles a whole scalar; source is how messages name it.
func (c *compiler) sourced(e *expression, sc scope, w wanted) (ev evaluator, source string) {
	if !e.given {
		return nil, ""
	}
	ev = c.expr(&e.scalar, 0, e.text, sc, w)
	return ev, sourceOf(ev, e.text)
}

// template compiles a scalar with expressions in braces. It returns nil after a problem.
func (c *compiler) template(t *templateText, sc scope) *template {
	if !t.given {
		return nil
	}
	pieces, at, problem := splitTemplate(t.text)
	if problem != "" {
		c.add(t.at(at), t.path, "%s", problem)
		return nil
	}
	out, ok := &template{text: t.text}, true
	for _, p := range pieces {
		if !p.expr {
			out.parts = append(out.parts, part{literal: p.text})
			continue
		}
		e := c.expr(&t.scalar, p.at, p.text, sc, wantPart)
		ok = ok && e != nil
		out.parts = append(out.parts, part{expr: e, source: sourceOf(e, p.text)})
	}
	if !ok {
		return nil
	}
	return out
}

// exprCompiler compiles one expression.
type exprCompiler struct {
	c      *compiler
	s      *scalar
	off    int
	text   string
	sc     scope
	env    *cel.Env
	ast    *ast.AST
	nextID int64
	failed bool
	// refused are the paths that known has told of.
	refused []string
}

// at is the place of a CEL location: line from 1, column from 0, in characters.
func (x *exprCompiler) at(line, column int) mark {
	offset := 0
	for range line - 1 {
		i := strings.IndexByte(x.text[offset:], '\n')
		if i < 0 {
			break
		}
		offset += i + 1
	}
	for range max(column, 0) {
		_, size := utf8.DecodeRuneInString(x.text[offset:])
		offset += size
	}
	return x.s.at(x.off + min(offset, len(x.text)))
}

func (x *exprCompiler) atNode(id int64) mark {
	l := x.ast.SourceInfo().GetStartLocation(id)
	return x.at(l.Line(), l.Column())
}

func (x *exprCompiler) problem(at mark, format string, args ...any) {
	x.failed = true
	x.c.add(at, x.s.path, "%s (in %s)", fmt.Sprintf(format, args...), quoteExpression(x.text))
}

func quoteExpression(text string) string { return "`" + oneLine(text) + "`" }

// sourceOf is how messages name a compiled expression.
func sourceOf(e evaluator, text string) string {
	if p, ok := e.(*path); ok {
		return p.text
	}
	return quoteExpression(text)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

func (x *exprCompiler) issues(iss *cel.Issues) bool {
	if iss == nil || iss.Err() == nil {
		return false
	}
	for _, e := range iss.Errors() {
		x.problem(x.at(e.Location.Line(), e.Location.Column()), "%s", x.explain(e))
	}
	return true
}

// explain words the checker's complaints about names better than it does.
func (x *exprCompiler) explain(e *cel.Error) string {
	message, _, _ := strings.Cut(e.Message, "\n")
	message, _, _ = strings.Cut(message, " expecting {") // the list of all tokens
	if x.ast == nil {
		return message
	}
	var node ast.Expr
	ast.PostOrderVisit(x.ast.Expr(), ast.NewExprVisitor(func(n ast.Expr) {
		if n.ID() == e.ExprID {
			node = n
		}
	}))
	if node == nil {
		return message
	}
	switch node.Kind() {
	case ast.IdentKind:
		name := node.AsIdent()
		if (name == "key" || name == "value" || name == "index") && !x.sc.each {
			return name + " is known beside each only"
		}
		hint := suggest(name, x.variables())
		if hint == "" && strings.TrimSpace(x.text) == name {
			// YAML took the quotes of value: "prod".
			hint = fmt.Sprintf("; a text needs quotes of its own: '%q'", name)
		}
		return fmt.Sprintf("unknown name %q%s", name, hint)
	case ast.SelectKind:
		sel := node.AsSelect()
		if sel.Operand().Kind() == ast.IdentKind && sel.Operand().AsIdent() == "message" {
			names, _ := messages{}.FindStructFieldNames(messageType)
			return fmt.Sprintf("message has no %q%s", sel.FieldName(), suggest(sel.FieldName(), names))
		}
	case ast.CallKind:
		name := node.AsCall().FunctionName()
		if name == commitTimestamp && !x.sc.spanner {
			return "commitTimestamp() is for Spanner columns only"
		}
		known := x.env.Functions()
		if _, ok := known[name]; ok || !isIdentifier(name) {
			break
		}
		var names []string
		for n := range known {
			if isIdentifier(n) {
				names = append(names, n)
			}
		}
		return fmt.Sprintf("unknown function %q%s", name, suggest(name, names))
	}
	return message
}

func (x *exprCompiler) variables() []string {
	names := []string{"data", "message", "raw"}
	if x.sc.each {
		names = append(names, "key", "value", "index")
	}
	return names
}

func (x *exprCompiler) compile(w wanted) evaluator {
	if strings.TrimSpace(x.text) == "" {
		x.c.add(x.s.at(x.off), x.s.path, "an expression is wanted")
		return nil
	}
	parsed, iss := x.env.Parse(x.text)
	if x.issues(iss) {
		return nil
	}
	x.ast = parsed.NativeRep()
	checked, iss := x.env.Check(parsed)
	if x.issues(iss) {
		return nil
	}
	x.ast = checked.NativeRep()
	x.nextID = ast.MaxID(x.ast) + 1
	if t := checked.OutputType(); !w.allows(t) {
		what := w.what
		if what == "" {
			what = "a value that can be stored"
		}
		x.problem(x.at(1, len([]rune(x.text))-len([]rune(strings.TrimLeft(x.text, " \n\t")))), "gives %s, wanted is %s", typeName(t), what)
		return nil
	}
	e := x.value(x.ast.Expr())
	if x.failed {
		return nil
	}
	return e
}

func typeName(t *types.Type) string {
	switch t.Kind() {
	case types.NullTypeKind:
		return "null"
	case types.TimestampKind:
		return "a timestamp"
	case types.DurationKind:
		return "a duration"
	default:
		return t.String()
	}
}

// value compiles e to its cheapest form. Where a value only passes through (a path, a
// conditional between paths, a default) a number keeps its literal.
func (x *exprCompiler) value(e ast.Expr) evaluator {
	if p, ok := x.pathOf(e, nil); ok {
		if p.optional >= 0 {
			return optionalPath{p}
		}
		return p
	}
	switch e.Kind() {
	case ast.LiteralKind:
		return constant{fromRef(e.AsLiteral())}
	case ast.ListKind, ast.MapKind:
		if c, ok := x.construct(e); ok {
			return c
		}
	case ast.CallKind:
		call := e.AsCall()
		args := call.Args()
		switch {
		case call.FunctionName() == operators.Conditional:
			test, then, otherwise := x.value(args[0]), x.value(args[1]), x.value(args[2])
			return &conditional{test, then, otherwise, sourceOf(test, x.text)}
		case call.FunctionName() == "orValue" && call.IsMemberFunction() && len(args) == 1:
			if p, ok := x.pathOf(call.Target(), nil); ok && p.optional >= 0 {
				return &orElse{optionalPath{p}, x.value(args[0])}
			}
		case call.FunctionName() == commitTimestamp && x.sc.spanner:
			return constant{value{kind: commitTS}}
		case call.FunctionName() == "json" && len(args) == 1:
			if p, ok := x.pathOf(args[0], nil); ok && p.optional < 0 {
				return jsonOf{p}
			}
		}
	}
	return x.program(e)
}

// pathOf recognises paths. bound are names that the expression itself declares.
func (x *exprCompiler) pathOf(e ast.Expr, bound []string) (*path, bool) {
	p, ok := x.steps(e, bound)
	if !ok {
		return nil, false
	}
	p.text = pathText(p.root, p.steps)
	x.known(e, p)
	return p, true
}

// known finds paths that no payload of the route can have.
func (x *exprCompiler) known(e ast.Expr, p *path) {
	text := pathText(p.root, p.steps)
	if what := checkPath(x.c.doc, p); what != "" && !contains(x.refused, text) {
		x.refused = append(x.refused, text)
		x.problem(x.atNode(e.ID()), "%s", what)
	}
}

func (x *exprCompiler) steps(e ast.Expr, bound []string) (*path, bool) {
	switch e.Kind() {
	case ast.IdentKind:
		name := e.AsIdent()
		if contains(bound, name) {
			return nil, false
		}
		r, ok := map[string]root{"data": rootData, "raw": rootRaw}[name]
		if !ok && x.sc.each {
			r, ok = map[string]root{"key": rootKey, "value": rootItem, "index": rootIndex}[name]
		}
		if !ok {
			return nil, false
		}
		return &path{root: r, optional: -1}, true
	case ast.SelectKind:
		sel := e.AsSelect()
		if sel.IsTestOnly() {
			return nil, false
		}
		if op := sel.Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == "message" && !contains(bound, "message") {
			f, ok := messageFields[sel.FieldName()]
			x.reads(f.root)
			return &path{root: f.root, optional: -1}, ok
		}
		return x.step(sel.Operand(), bound, step{name: sel.FieldName()}, false)
	case ast.CallKind:
		call := e.AsCall()
		optional := false
		switch call.FunctionName() {
		case operators.OptSelect, operators.OptIndex:
			optional = true
		case operators.Index:
		default:
			return nil, false
		}
		arg := call.Args()[1]
		if arg.Kind() != ast.LiteralKind {
			return nil, false
		}
		switch i := arg.AsLiteral().(type) {
		case types.String:
			return x.step(call.Args()[0], bound, step{name: string(i)}, optional)
		case types.Int:
			if i >= 0 && i <= MaxValues {
				return x.step(call.Args()[0], bound, step{index: int(i), list: true}, optional)
			}
		}
	}
	return nil, false
}

// reads notes what a path begins with.
func (x *exprCompiler) reads(r root) {
	if r == rootID {
		x.c.idReads++
	}
}

func (x *exprCompiler) step(operand ast.Expr, bound []string, st step, optional bool) (*path, bool) {
	p, ok := x.steps(operand, bound)
	if !ok || p.root != rootData && p.root != rootItem && p.root != rootKey && p.root != rootAttributes {
		return nil, false
	}
	p.steps = append(p.steps, st)
	if optional && p.optional < 0 {
		p.optional = len(p.steps) - 1
	}
	return p, true
}

// program compiles e for the evaluator, with every path in it made a variable: paths are
// resolved by us, exactly once, and know their names when something is missing.
func (x *exprCompiler) program(e ast.Expr) evaluator {
	shape := shapeOf(e, len(x.text))
	p := &program{text: quoteExpression(x.text), shape: shape}
	x.rewrite(p, e, nil)
	if x.failed {
		return nil
	}
	plan := ast.NewCheckedAST(ast.NewAST(e, x.ast.SourceInfo()), x.ast.TypeMap(), x.ast.ReferenceMap())
	var err error
	if p.fast, err = x.env.PlanProgram(plan, cel.EvalOptions(cel.OptOptimize)); err == nil {
		p.measured, err = x.env.PlanProgram(plan, cel.EvalOptions(cel.OptOptimize), cel.CostTracking(callCosts{}), cel.CostLimit(MaxCost))
	}
	if err != nil {
		message, _, _ := strings.Cut(err.Error(), "\n")
		x.problem(x.atNode(e.ID()), "%s", message)
		return nil
	}
	if d := directOf(p, e); d != nil && len(d.calls) > 0 {
		p.direct = d
	}
	return p
}

// use is how an expression uses a path.
type use uint8

const (
	useNeed     use = iota
	useHas          // has(path)
	useOptional     // data.?a
	useIsNull       // path == null
	useNotNull      // path != null
	useJSON         // json(path)
)

type variable struct {
	path *path
	use  use
}

var factory = ast.NewExprFactory()

func (x *exprCompiler) variable(p *program, e ast.Expr, v variable) {
	name := variableName(len(p.vars))
	p.vars = append(p.vars, v)
	e.SetKindCase(factory.NewIdent(e.ID(), name))
	x.ast.SetReference(e.ID(), ast.NewIdentReference(name, nil))
}

func variableName(i int) string { return "@" + itoa(i) }

func (x *exprCompiler) rewrite(p *program, e ast.Expr, bound []string) {
	if path, ok := x.pathOf(e, bound); ok {
		u := useNeed
		if path.optional >= 0 {
			u = useOptional
		}
		x.variable(p, e, variable{path, u})
		return
	}
	switch e.Kind() {
	case ast.IdentKind:
		if name := e.AsIdent(); name == "message" && !contains(bound, name) {
			x.problem(x.atNode(e.ID()), "message is no value of its own: use one of its fields, like message.id")
		}
	case ast.SelectKind:
		sel := e.AsSelect()
		if sel.IsTestOnly() {
			if op := sel.Operand(); op.Kind() == ast.IdentKind && op.AsIdent() == "message" && !contains(bound, "message") {
				r := messageFields[sel.FieldName()].root
				x.reads(r)
				x.variable(p, e, variable{&path{root: r, optional: -1}, useHas})
				return
			}
			if path, ok := x.step(sel.Operand(), bound, step{name: sel.FieldName()}, false); ok {
				x.known(e, path)
				x.variable(p, e, variable{path, useHas})
				return
			}
		}
		p.members = append(p.members, sel.FieldName())
		x.rewrite(p, sel.Operand(), bound)
	case ast.CallKind:
		x.rewriteCall(p, e, bound)
	case ast.ListKind:
		for _, el := range e.AsList().Elements() {
			x.rewrite(p, el, bound)
		}
	case ast.MapKind:
		for _, entry := range e.AsMap().Entries() {
			x.rewrite(p, entry.AsMapEntry().Key(), bound)
			x.rewrite(p, entry.AsMapEntry().Value(), bound)
		}
	case ast.ComprehensionKind:
		comp := e.AsComprehension()
		x.rewrite(p, comp.IterRange(), bound)
		x.rewrite(p, comp.AccuInit(), bound)
		inner := append(append([]string{}, bound...), comp.IterVar(), comp.AccuVar())
		if comp.HasIterVar2() {
			inner = append(inner, comp.IterVar2())
		}
		x.rewrite(p, comp.LoopCondition(), inner)
		x.rewrite(p, comp.LoopStep(), inner)
		x.rewrite(p, comp.Result(), append(append([]string{}, bound...), comp.AccuVar()))
	case ast.StructKind:
		x.problem(x.atNode(e.ID()), "messages cannot be made here")
	}
}

func (x *exprCompiler) rewriteCall(p *program, e ast.Expr, bound []string) {
	call := e.AsCall()
	args := call.Args()
	switch name := call.FunctionName(); {
	case name == commitTimestamp:
		x.problem(x.atNode(e.ID()), "commitTimestamp() is a column's whole value, not a part of an expression")
		return
	case name == "json" && len(args) == 1:
		if path, ok := x.pathOf(args[0], bound); ok && path.optional < 0 {
			x.variable(p, e, variable{path, useJSON})
			return
		}
	case (name == operators.Equals || name == operators.NotEquals) && len(args) == 2:
		operand := args[0]
		if isNullLiteral(operand) {
			operand = args[1]
		} else if !isNullLiteral(args[1]) {
			break
		}
		if x.compareNull(p, e, operand, name == operators.NotEquals, bound) {
			return
		}
	}
	if call.IsMemberFunction() {
		x.rewrite(p, call.Target(), bound)
	}
	for _, a := range args {
		x.rewrite(p, a, bound)
	}
	if through, ok := guarded[call.FunctionName()]; ok && call.IsMemberFunction() {
		e.SetKindCase(factory.NewMemberCall(e.ID(), through, call.Target(), args...))
		overloads := []string{}
		for _, o := range x.env.Functions()[through].OverloadDecls() {
			overloads = append(overloads, o.ID())
		}
		x.ast.SetReference(e.ID(), ast.NewFunctionReference(overloads...))
	}
}

func isNullLiteral(e ast.Expr) bool {
	return e.Kind() == ast.LiteralKind && e.AsLiteral() == ref.Val(types.NullValue)
}

// compareNull makes e, operand == null, a question of its own: a null would otherwise
// count as missing.
func (x *exprCompiler) compareNull(p *program, e, operand ast.Expr, negate bool, bound []string) bool {
	if path, ok := x.pathOf(operand, bound); ok && path.optional < 0 {
		u := useIsNull
		if negate {
			u = useNotNull
		}
		x.variable(p, e, variable{path, u})
		return true
	}
	if operand.Kind() != ast.SelectKind || operand.AsSelect().IsTestOnly() {
		return false
	}
	sel := operand.AsSelect()
	x.rewrite(p, sel.Operand(), bound)
	name := factory.NewLiteral(x.newID(), types.String(sel.FieldName()))
	if !negate {
		e.SetKindCase(factory.NewCall(e.ID(), isNullFunction, sel.Operand(), name))
		x.ast.SetReference(e.ID(), ast.NewFunctionReference(isNullFunction))
		return true
	}
	question := factory.NewCall(x.newID(), isNullFunction, sel.Operand(), name)
	x.ast.SetReference(question.ID(), ast.NewFunctionReference(isNullFunction))
	x.ast.SetType(question.ID(), types.BoolType)
	e.SetKindCase(factory.NewCall(e.ID(), operators.LogicalNot, question))
	x.ast.SetReference(e.ID(), ast.NewFunctionReference("logical_not"))
	return true
}

func (x *exprCompiler) newID() int64 {
	x.nextID++
	return x.nextID
}
