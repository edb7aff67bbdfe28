package runtimes

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"

	"aicplan/engine/stage"
)

// allowed is the key of what a context allows: that servers of a plan are contacted, or also that its programs are
// started.
type allowed struct{}

const (
	reaching = iota + 1
	running
)

// Running returns a context for work that the user has requested, such as a preflight, in which programs
// of the plan may be started. In other contexts, such as when a plan is read or made, no program of the
// plan runs. Plans are shared, and reading one must be harmless.
func Running(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowed{}, running)
}

func mayRun(ctx context.Context) bool { return ctx.Value(allowed{}) == running }

// Reaching returns a context for the plan of a run that follows immediately. The servers of the plan may
// be contacted, but no program of the plan is started.
func Reaching(ctx context.Context) context.Context {
	return context.WithValue(ctx, allowed{}, reaching)
}

func mayReach(ctx context.Context) bool { return ctx.Value(allowed{}) != nil }

// pythonName matches the names of interpreters.
var pythonName = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)

// harmless lists Python variables that do not change what is imported.
var harmless = map[string]bool{"PYTHONDONTWRITEBYTECODE": true, "PYTHONUNBUFFERED": true, "PYTHONHASHSEED": true,
	"PYTHONWARNINGS": true}

// plainPython reports whether a runtime's interpreter may be started while a plan is made. It must be
// installed on the machine and not next to the plan, and the plan must not set a variable that loads
// other code into it.
func plainPython(rt *stage.Runtime) bool {
	python := pythonOf(rt)
	if !pythonName.MatchString(filepath.Base(python)) || strings.ContainsRune(python, filepath.Separator) &&
		!filepath.IsAbs(python) {
		return false
	}

	for name := range rt.Env {
		for _, prefix := range []string{"PYTHON", "LD_", "DYLD_"} {
			if strings.HasPrefix(name, prefix) && !harmless[name] {
				return false
			}
		}
	}

	return true
}
