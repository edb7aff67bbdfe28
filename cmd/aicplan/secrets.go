package main

import (
	"io"
	"os"
	"slices"
	"strings"

	"aicplan/engine/config"
	"aicplan/sink/base/textutil"
)

// hide removes the values of a plan's sensitive variables from all further output.
func (a *app) hide(cfg *config.Config) {
	if cfg == nil {
		return
	}
	a.sensitive = append(a.sensitive, cfg.Sensitive()...)
	a.secrets = textutil.NewSecrets(cfg.Secrets()...)
	for _, w := range []io.Writer{a.stdout, a.stderr} {
		if v, ok := w.(*textutil.Writer); ok {
			v.Secrets = a.secrets
		}
	}
}

// commandLine returns the command line without the values of sensitive variables. It describes the lock
// holder.
func (a *app) commandLine() string {
	args := slices.Clone(os.Args[1:])
	for i, arg := range args {
		flag, value := "", arg
		if at := strings.Index(arg, "="); strings.HasPrefix(arg, "-") && at > 0 {
			flag, value = arg[:at+1], arg[at+1:]
		}
		if name, _, ok := strings.Cut(value, "="); ok && slices.Contains(a.sensitive, strings.TrimSpace(name)) {
			args[i] = flag + name + "=" + textutil.Redacted
		}
	}

	return a.secrets.String("aicplan " + strings.Join(args, " "))
}
