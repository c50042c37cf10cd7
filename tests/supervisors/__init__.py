"""Supervision semantics, by concept, in the order of OTP's own suite.

start, start with faulty specs .... test_start
stop (order, time, unstoppable) ... test_stop
child administration .............. test_administration
exits x restart types ............. test_exits
strategies ........................ test_strategies
intensity, escalation ............. test_intensity
failed restarts, hanging loops .... test_failed_restarts
the root's counting policy ........ test_before_ready
dynamic children, scale ........... test_dynamic, test_dynamic_faults, test_scale
everything against a model ........ test_machine
"""
