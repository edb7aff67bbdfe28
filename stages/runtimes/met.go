package runtimes

import (
	"context"

	"aicplan/engine/stage"
)

// Met records the environment that the workers of a runtime report if it differs from the expected one
// or none was expected. Expect returns it from then on. If the interpreter reports something else, that
// is stored in Environment.Asked.
func (p *Pools) Met(rt *stage.Runtime, e *Environment) {
	e.Asked = p.contradiction(rt, e)
	if e.Asked != "" { // the interpreter may have been replaced since the last query
		p.mu.Lock()
		clear(p.versions)
		p.mu.Unlock()
		e.Asked = p.contradiction(rt, e)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.met[rt.Address] = e
}

// contradiction returns the interpreter's report if it differs from that of its workers, and ""
// otherwise.
func (p *Pools) contradiction(rt *stage.Runtime, e *Environment) string {
	if !p.Kind(rt.Kind).About().Interpreted {
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

// metBy returns the environment that Met recorded for a runtime, or nil.
func (p *Pools) metBy(rt *stage.Runtime) *Environment {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.met[rt.Address] == nil {
		return nil
	}
	e := *p.met[rt.Address]
	return &e
}

// interpreterSays returns the version of the runtime's package and of its interpreter, each "" if it
// cannot be determined here. The runtime must have an interpreter.
func (p *Pools) interpreterSays(ctx context.Context, rt *stage.Runtime) (pkg, python string) {
	pkg = p.packageVersion(ctx, rt)
	if len(rt.Launcher) == 0 {
		python = p.Kind(rt.Kind).Installed(ctx, p, rt).Python
	}
	if pkg == unknownVersion || Satisfies(pkg, rt.Requires) != nil {
		// The runtime rejects this version, so it runs in another place with another version.
		pkg = ""
	}
	return pkg, python
}

// asAsked formats an interpreter's report for Environment.Asked.
func asAsked(pkg, python string) string { return pkg + ", Python " + python }
