"""What today's package has: the database names tables, and an engine reads them."""


class View:
    def __init__(self, system, backend, version):
        self.system, self.backend, self.version = system, backend, version


def get_database_view(system, backend, version, systems_paths=None):
    return View(system, backend, version)
