package runtimes

import (
	"context"
	"path/filepath"
	"regexp"
	"strings"

	"aicplan/engine/stage"
)

// running marks contexts in which what a plan names may be started.
type running struct{}

// Running returns a context for work that the user has asked for, such as a
// preflight: programs that the plan names may be started in it. In any other,
// which is when a plan is read or made, nothing runs that the plan brings along:
// plans are shared, and looking at one must be harmless.
func Running(ctx context.Context) context.Context {
	return context.WithValue(ctx, running{}, true)
}

func mayRun(ctx context.Context) bool { return ctx.Value(running{}) != nil }

// reaching marks contexts in which servers that a plan names may be asked.
type reaching struct{}

// Reaching returns a context for the plan of a run that follows at once: whether
// a server of the plan answers may be seen in it, and still nothing of the plan
// is started.
func Reaching(ctx context.Context) context.Context {
	return context.WithValue(ctx, reaching{}, true)
}

func mayReach(ctx context.Context) bool { return mayRun(ctx) || ctx.Value(reaching{}) != nil }

// pythonName is how interpreters are called.
var pythonName = regexp.MustCompile(`^(python|pypy)[0-9.]*$`)

// harmless variables of Python change nothing of what it imports.
var harmless = map[string]bool{"PYTHONDONTWRITEBYTECODE": true, "PYTHONUNBUFFERED": true, "PYTHONHASHSEED": true, "PYTHONWARNINGS": true}

// plainPython says whether a runtime's interpreter may be asked while a plan is
// made: it is one of the machine and not a file next to the plan, and the plan
// sets no variable by which other code gets into it.
func plainPython(rt *stage.Runtime) bool {
	python := pythonOf(rt)
	if !pythonName.MatchString(filepath.Base(python)) || strings.ContainsRune(python, filepath.Separator) && !filepath.IsAbs(python) {
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
