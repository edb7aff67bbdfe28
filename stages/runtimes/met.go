package runtimes

import (
	"context"

	"aicplan/engine/stage"
)

// Met takes what the workers of a runtime say of themselves where something else,
// or nothing, was expected: from here on this is. An interpreter that says
// something else of itself even then is remembered with it; see Environment.Asked.
func (p *Pools) Met(rt *stage.Runtime, e *Environment) {
	e.Asked = p.contradiction(rt, e)
	if e.Asked != "" { // it may have been replaced since it was asked
		p.mu.Lock()
		clear(p.versions)
		p.mu.Unlock()
		e.Asked = p.contradiction(rt, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met[rt.Address] = e
}

// contradiction is what the interpreter of a runtime says where its workers say
// something else, else "".
func (p *Pools) contradiction(rt *stage.Runtime, e *Environment) string {
	if k := p.Kind(rt.Kind); k == nil || k.Interpreter == nil {
		return ""
	}
	pkg, python := p.interpreterSays(Running(p.ctx), rt)
	version := pkg
	if rt.Package == "" {
		version = python
	}
	told := e.Env["python"]
	if version != "" && version != e.Version || python != "" && told != "" && python != told {
		return asAsked(pkg, python)
	}
	return ""
}

// metBy is what Met took for a runtime, or nil.
func (p *Pools) metBy(rt *stage.Runtime) *Environment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met[rt.Address] == nil {
		return nil
	}
	e := *p.met[rt.Address]
	return &e
}

// interpreterSays is what the interpreter of a runtime, which has one, says of
// itself where it can be asked here: the version of its package and its own, each
// "" where it does not.
func (p *Pools) interpreterSays(ctx context.Context, rt *stage.Runtime) (pkg, python string) {
	pkg = p.packageVersion(ctx, rt)
	if len(rt.Launcher) == 0 {
		python = p.Kind(rt.Kind).Interpreter(ctx, p, rt)
	}
	if pkg == unknownVersion || Satisfies(pkg, rt.Requires) != nil {
		// What the runtime refuses is not what it will run on: the place where it
		// was seen has another version.
		pkg = ""
	}
	return pkg, python
}

// asAsked is an interpreter's answer as Environment.Asked has it.
func asAsked(pkg, python string) string { return pkg + ", Python " + python }
