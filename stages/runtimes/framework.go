package runtimes

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"

	"aicplan/cudaops/pyhost"
	"aicplan/engine/stage"
)

// Missing says why a runtime cannot work here and what the user can do.
type Missing struct {
	What string
	Fix  string
}

func (m *Missing) Error() string { return m.What }

// Unjudged says why it cannot be told here whether a runtime can work.
type Unjudged struct {
	What string
	Fix  string
}

func (u *Unjudged) Error() string { return u.What }

// Framework makes sure that what a runtime runs on is installed in the version
// that it requires, collectors that the plan hosts on it included, without
// starting a worker. The text says what was found;
// a *Missing error says what was not, an *Unjudged one that only a worker will tell.
func (p *Pools) Framework(ctx context.Context, rt *stage.Runtime) (string, error) {
	text, err := p.look(ctx, rt)
	if err != nil {
		return "", err
	}
	checkout, err := p.Checkout(rt)
	if checkout != "" {
		text += "; " + checkout
	}
	return text, err
}

// look says what of a runtime is on this machine, without its collectors.
func (p *Pools) look(ctx context.Context, rt *stage.Runtime) (string, error) {
	if len(rt.Launcher) > 0 {
		if _, err := exec.LookPath(rt.Launcher[0]); err != nil {
			return "", &Missing{What: fmt.Sprintf("the launcher %s is not on this machine", rt.Launcher[0]), Fix: "install it, or take launcher out of the runtime and run aicplan inside the container"}
		}
		return "workers start through " + strings.Join(rt.Launcher, " ") + "; the version is read there", nil
	}
	k := p.Kind(rt.Kind)
	if k == nil {
		return "", &Missing{What: fmt.Sprintf("this aicplan runs no runtimes of kind %q", rt.Kind), Fix: "use a build of aicplan that does"}
	}
	if k.Look == nil {
		return "a runtime of kind " + rt.Kind + " needs nothing of this machine", nil
	}
	return k.Look(ctx, p, rt)
}

// getIt says where a runtime's framework can be had.
func getIt(rt *stage.Runtime) string {
	want := rt.Package
	if rt.Requires != "" {
		want += " " + rt.Requires
	}
	if rt.Image != "" {
		return fmt.Sprintf("run aicplan inside the image %s, which has it, or give the runtime a launcher that starts workers there", rt.Image)
	}
	if want == "" {
		return "run aicplan where the framework is installed"
	}
	return fmt.Sprintf("run aicplan where %s is installed: inside the framework's container, or in its virtual environment (runtime attribute python)", want)
}

// errVersion is the reason of Satisfies.
var errVersion = errors.New("version does not fit")

// Satisfies checks a version against a PEP 440 specifier, as pyhost.Satisfies.
func Satisfies(version, specifier string) error {
	met, err := pyhost.Satisfies(version, specifier)
	if err != nil {
		return fmt.Errorf("requires = %q: %w", specifier, err)
	}
	if !met {
		return fmt.Errorf("%w: %s is not %s", errVersion, version, specifier)
	}
	return nil
}
