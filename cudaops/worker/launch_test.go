package worker_test

import (
	"strings"
	"testing"

	"aicplan/cudaops/worker"
)

func TestThroughPlacesTheImage(t *testing.T) {
	t.Parallel()
	command := []string{"python3", "-u", "host.py"}
	_, args, err := worker.Through([]string{"env", "run", "-i"}, "repo/img@sha256:ab", command)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(args[5:], " "); got != "run -i repo/img@sha256:ab python3 -u host.py --fd-in 0 --fd-out 1" {
		t.Errorf("args = %s", got)
	}
	_, args, err = worker.Through([]string{"env", "--image={image}", "--"}, "img", command)
	if err != nil || strings.Join(args[5:8], " ") != "--image=img -- python3" {
		t.Errorf("args = %q, %v", args, err)
	}
	for want, launcher := range map[string][]string{"names no image": {"env", "{image}"}, "launcher is empty": nil,
		"no-such-launcher": {"no-such-launcher"}} {
		if _, _, err := worker.Through(launcher, "", command); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v, want an error with %q", launcher, err, want)
		}
	}
}
