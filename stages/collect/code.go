package collect

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"aicplan/cudaops/worker"
	"aicplan/engine/checkpoint"
	"aicplan/stages/runtimes"
)

// expect returns the environment in which the cases would be measured now, with the code that workers would
// import, or nil if nothing is known. assumed describes an environment that was seen in an earlier run.
func (c *Config) expect(ctx context.Context, store *checkpoint.Store,
	op, planDir string) (env *runtimes.Environment, assumed string) {
	env, assumed = c.pools.Expect(ctx, store, c.runtime)
	if env == nil {
		c.withCode(op, planDir, &runtimes.Environment{})
		return nil, ""
	}

	if c.Elsewhere() {
		// Tasks inherit the variables of their node.
		if seen, err := runtimes.Known(store, c.runtime.Address); err == nil && seen != nil {
			env.Variables = seen.Variables
		}
	}
	return c.withCode(op, planDir, env), assumed
}

// withCode returns a copy of an environment with the code that workers would import now. It returns env if
// workers do not report code, or if the binding states a version.
func (c *Config) withCode(op, planDir string, env *runtimes.Environment) *runtimes.Environment {
	if c.stated() || !c.about().HasCode {
		return env
	}

	entry, _ := c.kind().Entry(c.runtime, planDir, c.opName(op), c.workerBind(), env.Version)
	code := runtimes.CodeNow(entry, func(digest string) *runtimes.Code {
		if known := env.Code[c.codeKey(op)+digest]; known != nil {
			return known
		}
		return env.Code[c.codeKey(op)]
	}, env.Env["python"])
	c.code.Store(code)
	return c.setCode(op, env, code)
}

// codeKey returns the key of the op's code in environments. Followed by the digest of an entry, it is the key of
// the code for that state of the op's files.
func (c *Config) codeKey(op string) string { return runtimes.CodeKey(c.runtime, c.opName(op), c.bind) }

// setCode returns a copy of an environment with other code of the op.
func (c *Config) setCode(op string, env *runtimes.Environment, code *runtimes.Code) *runtimes.Environment {
	e := *env
	e.Code = maps.Clone(env.Code)
	if e.Code == nil {
		e.Code = map[string]*runtimes.Code{}
	}
	e.Code[c.codeKey(op)], e.Code[c.codeKey(op)+code.Entry] = code, code
	return &e
}

// codeIn returns the code of the op in an environment. It returns nil if the code is unknown, if workers do not
// report it, or if the binding states a version.
func (c *Config) codeIn(op string, env *runtimes.Environment) *runtimes.Code {
	if c.stated() {
		return nil
	}
	return env.Code[c.codeKey(op)]
}

// packagesIn returns the distributions that the code imports, without the runtime's package, whose version the
// environment has.
func (c *Config) packagesIn(code *runtimes.Code) map[string]string {
	if code == nil {
		return nil
	}
	out := maps.Clone(code.Packages)
	delete(out, runtimes.Normal(c.runtime.Package))
	return out
}

// imported takes the code that a worker has reported into the environment, in addition to known, the code that
// workers have reported before. The error explains that a file was replaced in the meantime.
func (r *running) imported(env *runtimes.Environment, known *runtimes.Code,
	report *worker.Code) (*runtimes.Environment, error) {
	if report == nil || r.stated() {
		return env, nil
	}

	op := r.planned.cases.Spec().Op
	entry, _ := r.kind().Entry(r.runtime, r.rc.PlanDir, r.opName(op), r.workerBind(), env.Version)
	code, err := runtimes.CodeReported(entry, report)
	if err != nil {
		return nil, r.replaced(err)
	}

	// Some cases import modules that others do not.
	if known != nil && known.Entry == code.Entry {
		code.Add(known)
	}

	r.code.Store(code)
	return r.setCode(op, env, code), nil
}

// errMore ends a pass over the cases because a worker has imported code that no worker had reported before.
var errMore = errors.New("a worker has imported more code")

// unlike returns why the rows of an outcome cannot be stored beside the others, or nil: the worker has imported
// other code than the plan was made with, or a file that rows depend on has changed. It returns errMore if the
// worker has imported additional code.
func (r *running) unlike(o *worker.Outcome) error {
	code := r.code.Load()
	if code != nil && o.Code != nil && !r.stated() {
		more, err := code.Covers(o.Code)
		if err != nil {
			return r.replaced(err)
		}
		if more {
			r.more = o.Code
			return errMore
		}
	}

	if code != nil && !r.stated() {
		if err := code.Changed(); err != nil {
			return r.replaced(err)
		}
	}
	return r.filesChanged()
}

// filesChanged returns an error if a file of reads_files or a file that the runtime's kind reads differs from
// the one that the plan was made with.
func (r *running) filesChanged() error {
	for _, f := range []struct {
		paths []string
		id    string
	}{{r.ReadsFiles, r.readsFilesID}, {r.kindFiles, r.kindFilesID}} {
		if len(f.paths) == 0 || f.id == "" {
			continue
		}
		now, err := contentOf(context.Background(), f.paths)
		if err != nil {
			return err
		}
		if now != f.id {
			return r.replaced(&runtimes.ChangedError{Path: fmt.Sprintf("%s (one of the files that the cases read)", some(f.paths))})
		}
	}
	return nil
}

// replaced explains an error about a file that changed during the run.
func (r *running) replaced(err error) error {
	return fmt.Errorf("%w; the run stops here, so that no row of other code counts. Rows until then are kept; apply again to measure with what is there now",
		err)
}

// some formats at most three names.
func some(names []string) string {
	if len(names) > 3 {
		names = append(slices.Clone(names[:3]), fmt.Sprintf("%d more", len(names)-3))
	}
	return strings.Join(names, ", ")
}

// reusesOtherCode reports whether the code of the rows differs from the code that was recorded last.
func (r *running) reusesOtherCode() bool {
	op := r.planned.cases.Spec().Op
	seen, err := runtimes.Known(r.rc.Store, r.runtime.Address)
	code := r.codeIn(op, r.env)
	if err != nil || seen == nil || code == nil {
		return false
	}
	before := r.codeIn(op, seen)
	return before == nil || before.String() != code.String()
}
