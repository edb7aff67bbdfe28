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

// Framework makes sure that what a runtime runs on is installed in the version
// that it requires, collectors that the plan hosts on it included, without
// starting a worker. The text says what was found;
// a *Missing error says what was not.
func (p *Pools) Framework(ctx context.Context, rt *stage.Runtime) (string, error) {
	switch rt.Kind {
	case "cpu":
		env := probeCPU(ctx, rt)
		if env == nil {
			return "", &Missing{What: "the cpu runtime does not start in this build", Fix: "build aicplan with its module information (go build, not from single files)"}
		}
		return fmt.Sprintf("%s %s on %s", env.Framework, env.Version, env.Device), nil
	case "python":
		text, err := p.pythonFramework(ctx, rt)
		if err != nil {
			return "", err
		}
		checkout, err := p.Checkout(rt)
		if checkout != "" {
			text += "; " + checkout
		}
		return text, err
	}
	devices, err := p.Devices()
	if err != nil {
		return "", &Missing{What: err.Error(), Fix: "run on a machine with an NVIDIA GPU and its driver"}
	}
	if len(devices) == 0 {
		return "", &Missing{What: "no GPU is visible", Fix: "run on a machine with an NVIDIA GPU and its driver; in a container, start it with --gpus all; look at CUDA_VISIBLE_DEVICES"}
	}
	return describe(devices), nil
}

func (p *Pools) pythonFramework(ctx context.Context, rt *stage.Runtime) (string, error) {
	if len(rt.Launcher) > 0 {
		if _, err := exec.LookPath(rt.Launcher[0]); err != nil {
			return "", &Missing{What: fmt.Sprintf("the launcher %s is not on this machine", rt.Launcher[0]), Fix: "install it, or take launcher out of the runtime and run aicplan inside the container"}
		}
		return "workers start through " + strings.Join(rt.Launcher, " ") + "; the version is read there", nil
	}
	python := rt.Python
	if python == "" {
		python = pyhost.DefaultPython
	}
	if _, err := exec.LookPath(python); err != nil {
		return "", &Missing{What: fmt.Sprintf("the interpreter %s is not on this machine", python), Fix: getIt(rt)}
	}
	if rt.Package == "" {
		return python + " is there; the runtime names no package", nil
	}
	v := p.packageVersion(ctx, rt)
	if v == "" {
		return "", &Missing{What: fmt.Sprintf("the Python package %s is not installed for %s", rt.Package, python), Fix: getIt(rt)}
	}
	if v == unknownVersion {
		return fmt.Sprintf("%s tells no version of %s; a worker will", python, rt.Package), nil
	}
	if err := Satisfies(v, rt.Requires); err != nil {
		return "", &Missing{What: fmt.Sprintf("%s %s is installed, but %s requires %s", rt.Package, v, rt.Address, rt.Requires), Fix: getIt(rt)}
	}
	return fmt.Sprintf("%s %s", rt.Package, v), nil
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
