"""Calls those that want to know of it before code is compiled."""


class Handler:
    def __init__(self):
        self.starts = []

    def register_start_callback(self, call):
        self.starts.append(call)

    def run_start_callbacks(self, args):
        for call in self.starts:
            call(args)


callback_handler = Handler()
