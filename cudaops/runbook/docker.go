package runbook

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"aicplan/sink/base/proc"
)

// Time limits of docker commands. They run before and after everything that has another limit, so they must
// end by themselves.
const (
	listLimit   = 10 * time.Second
	removeLimit = time.Minute
)

// docker runs a docker command and returns its output.
func docker(ctx context.Context, limit time.Duration, args ...string) (string, error) {
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	out, err := proc.Output(exec.CommandContext(bounded, "docker", args...))
	if err == nil {
		return string(out), nil
	}

	if ctx.Err() == nil && bounded.Err() != nil {
		return "", fmt.Errorf("docker %s did not end within %v: is its daemon well?", args[0], limit)
	}

	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		if said := strings.TrimSpace(string(exit.Stderr)); said != "" {
			return "", fmt.Errorf("docker %s: %s", args[0], said)
		}
	}

	return "", fmt.Errorf("docker %s: %w", args[0], err)
}

// containers returns the ids of all containers, or none if docker is not installed.
func containers(ctx context.Context) ([]string, error) {
	if _, err := exec.LookPath("docker"); err != nil {
		return nil, nil
	}
	out, err := docker(ctx, listLimit, "ps", "-aq", "--no-trunc")
	return strings.Fields(out), err
}

// seen are the containers that existed before the set-up, or the error of listing them.
type seen struct {
	ids []string
	err error
}

// removeNew removes the containers that did not exist before and returns their descriptions.
func (before seen) removeNew(ctx context.Context) (removed []string, err error) {
	now, err := containers(ctx)
	switch {
	case err != nil && before.err != nil:
		return nil, nil // docker does not work here, so the blocks could not use it either
	case err != nil:
		return nil, fmt.Errorf("containers that the blocks have started may be left: %w", err)
	case before.err != nil && len(now) > 0:
		return nil, fmt.Errorf(
			"no container was removed, since those of before are not known (%w); docker ps -a lists what is there",
			before.err)
	}

	var wrong []error
	for _, id := range now {
		if slices.Contains(before.ids, id) {
			continue
		}
		if _, err := docker(ctx, removeLimit, "rm", "-f", id); err != nil {
			wrong = append(wrong, fmt.Errorf("container %s: %w", id[:min(12, len(id))], err))
			continue
		}
		removed = append(removed, "container "+id[:min(12, len(id))])
	}

	return removed, errors.Join(wrong...)
}
