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

// Missing is the error of a runtime that cannot run here, with a suggested fix.
type Missing struct {
	What string
	Fix  string
}

func (m *Missing) Error() string { return m.What }

// missing returns a *Missing.
func missing(fix, format string, args ...any) error {
	return &Missing{What: fmt.Sprintf(format, args...), Fix: fix}
}

// Unjudged is the error if it cannot be determined here whether a runtime can run.
type Unjudged struct {
	What string
	Fix  string
}

func (u *Unjudged) Error() string { return u.What }

// Framework verifies, without starting a worker, that the runtime's framework is installed in the
// required version and that the collectors of the plan exist. It returns a description of what was
// found. The error is a *Missing if something is missing, or an *Unjudged if only a worker can determine
// it.
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

// look does the same as Framework without the collectors.
func (p *Pools) look(ctx context.Context, rt *stage.Runtime) (string, error) {
	if len(rt.Launcher) > 0 {
		if _, err := exec.LookPath(rt.Launcher[0]); err != nil {
			return "", missing("install it, or take launcher out of the runtime and run aicplan inside the container",
				"the launcher %s is not on this machine", rt.Launcher[0])
		}
		return "workers start through " + strings.Join(rt.Launcher, " ") + "; the version is read there", nil
	}

	switch kind := p.Kind(rt.Kind); {
	case kind.Look != nil:
		return kind.Look(ctx, p, rt)
	case kind.UsesGPUs:
		return p.lookGPUs()
	}
	return "a runtime of kind " + rt.Kind + " needs nothing of this machine", nil
}

// getIt returns a suggestion how to get a runtime's framework.
func getIt(rt *stage.Runtime) string {
	want := rt.Package
	if rt.Requires != "" {
		want += " " + rt.Requires
	}

	if rt.Image != "" {
		return fmt.Sprintf(
			"run aicplan inside the image %s, which has it, or give the runtime a launcher that starts workers there",
			rt.Image,
		)
	}

	if want == "" {
		return "run aicplan where the framework is installed"
	}

	return fmt.Sprintf(
		"run aicplan where %s is installed: inside the framework's container, or in its virtual environment (runtime "+
			"attribute python)",
		want,
	)
}

// Satisfies returns an error if a version does not match a PEP 440 specifier; see pyhost.Satisfies.
func Satisfies(version, specifier string) error {
	met, err := pyhost.Satisfies(version, specifier)
	if err != nil {
		return fmt.Errorf("requires = %q: %w", specifier, err)
	}
	if !met {
		return fmt.Errorf("version does not fit: %s is not %s", version, specifier)
	}
	return nil
}

// Absent returns why rt cannot run here if another runtime of the plan can. The stages of rt then wait
// for another container, and the plan continues there with the same state folder. Absent returns nil if
// rt is available as far as that is known without starting it. It also returns nil if no runtime is
// available, for example when a plan is made on a laptop.
func (p *Pools) Absent(ctx context.Context, rt *stage.Runtime) *Missing {
	p.mu.Lock()
	var others []*stage.Runtime
	for address, u := range p.used {
		if address != rt.Address {
			others = append(others, u.runtime)
		}
	}

	p.mu.Unlock()
	if len(others) == 0 {
		return nil
	}

	why := p.Lacking(ctx, rt)
	if why == nil {
		return nil
	}

	for _, o := range others {
		if p.Lacking(ctx, o) == nil {
			return why
		}
	}

	return nil
}

// Lacking returns what rt lacks on this machine, or nil, without starting a worker. Missing collectors
// are not included; see Checkout.
func (p *Pools) Lacking(ctx context.Context, rt *stage.Runtime) *Missing {
	_, err := p.look(ctx, rt)
	if m, ok := errors.AsType[*Missing](err); ok {
		return m
	}
	return nil
}
