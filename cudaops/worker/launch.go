package worker

import (
	"errors"
	"fmt"
	"os/exec"
	"strings"
)

// bridge puts the worker's descriptors 3 and 4 on standard input and output of
// what it runs: launchers pass on no others.
const bridge = `exec "$@" <&3 >&4 3<&- 4>&-`

// Through returns the program and its arguments (the first of which is its
// name) that start a worker through a launcher such as docker run or srun. The
// worker speaks on its standard input and output then and is told so by the
// flags --fd-in and --fd-out behind its command; what it prints has to go to
// standard error. An element {image} of the launcher becomes the image, which
// otherwise follows the launcher. The launcher must show the worker the files
// that command names under their own paths and keep standard input open (docker
// run -i).
func Through(launcher []string, image string, command []string) (path string, args []string, err error) {
	if len(launcher) == 0 {
		return "", nil, errors.New("the launcher is empty")
	}
	program, err := exec.LookPath(launcher[0])
	if err != nil {
		return "", nil, fmt.Errorf("launcher: %w", err)
	}
	args = []string{"/bin/sh", "-c", bridge, "aicplan-launch", program}
	named := false
	for _, a := range launcher[1:] {
		if strings.Contains(a, "{image}") {
			if image == "" {
				return "", nil, errors.New("the launcher contains {image} and the runtime names no image")
			}
			a, named = strings.ReplaceAll(a, "{image}", image), true
		}
		args = append(args, a)
	}
	if image != "" && !named {
		args = append(args, image)
	}
	args = append(args, command...)
	return args[0], append(args, "--fd-in", "0", "--fd-out", "1"), nil
}
