#!/opt/discretion/bin/python -IS
"""Whether `discretion serve` in this container is ready. Not through urllib, which would ask a proxy named in the
environment."""

import http.client
import os
import sys

asked = http.client.HTTPConnection("127.0.0.1", int(os.environ.get("DISCRETION_PORT") or 8000), timeout=9)
try:
    asked.request("GET", "/readyz")
    answer = asked.getresponse()
except OSError as trouble:
    sys.exit(f"The service does not answer: {trouble.strerror}.")
if answer.status != 200:
    sys.exit(f"The service is not ready: {answer.read(300).decode()}")
